#!/usr/bin/env bash
# Installs a server's programs from another Debian release, and prints its directory:
# install.sh NAME SUITE PACKAGE…
#
# It unpacks the packages and all that they depend on, also the C library, into
# $CARILLON_CACHE/versions/NAME (default ~/.cache/carillon). Nothing of the host changes, and no root
# is needed. Programs run with their own libraries. A second run does nothing. A run that dies
# halfway leaves nothing that a later run would take for complete. The programs are in its bin.
set -euo pipefail
[ $# -ge 3 ] || { sed -n 3p "$0" >&2 && exit 2; }
name=$1 suite=$2
shift 2
cache=${CARILLON_CACHE:-$HOME/.cache/carillon}/versions
root=$cache/$name
mkdir -p "$cache"
exec 9>"$cache/lock"
flock 9
if [ -d "$root/bin" ]; then # a process that waited finds the work done
  echo "$root"
  exit
fi
work=$(mktemp -d "$cache/new.XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir -p "$work"/apt/{lists,archives}/partial "$work/root"
: >"$work/apt/status" # no package is installed, so that all dependencies come
echo "deb http://deb.debian.org/debian $suite main" >"$work/apt/sources.list"
apt=(apt-get -q -y -o Dir::Etc::sourcelist="$work/apt/sources.list" -o Dir::Etc::sourceparts=/dev/null
  -o Dir::Etc::preferencesparts=/dev/null -o Dir::State::Lists="$work/apt/lists" -o Dir::State::status="$work/apt/status"
  -o Dir::Cache="$work/apt" -o Dir::Cache::archives="$work/apt/archives" -o APT::Install-Recommends=false
  -o APT::Sandbox::User="$(id -un)" -o Debug::NoLocking=true)
echo "versions: installing $* of Debian $suite into $root" >&2
"${apt[@]}" update >&2
"${apt[@]}" --download-only install "$@" >&2
for package in "$work"/apt/archives/*.deb; do
  dpkg-deb --extract "$package" "$work/root"
done
mkdir "$work/root/bin"
lib=usr/lib/x86_64-linux-gnu
for program in mariadbd mysqld my_print_defaults resolveip mariadb mysql redis-server redis-cli valkey-server valkey-cli; do
  for path in usr/sbin usr/bin; do
    file=$work/root/$path/$program
    [ -e "$file" ] || continue
    # Redis and Valkey are one program, which goes by the name under which it is called.
    if [ -L "$file" ]; then
      real=$(readlink -f "$file") && rm "$file"
    else
      mv "$file" "$file.bin" && real=$(readlink -f "$file.bin")
    fi
    printf '#!/bin/sh\nexec "%s" --argv0 "%s" --library-path "%s" "%s" "$@"\n' \
      "$root/$lib/ld-linux-x86-64.so.2" "$program" "$root/$lib" "$root${real#"$(readlink -f "$work/root")"}" >"$file"
    chmod +x "$file"
    ln -s "../$path/$program" "$work/root/bin/$program"
  done
done
# The scripts ask for these names.
[ ! -e "$work/root/usr/bin/mariadb-install-db" ] || ln -s ../usr/bin/mariadb-install-db "$work/root/bin/"
for program in server cli; do
  [ ! -e "$work/root/bin/valkey-$program" ] || ln -s "valkey-$program" "$work/root/bin/redis-$program"
done
mv "$work/root" "$root"
echo "$root"
