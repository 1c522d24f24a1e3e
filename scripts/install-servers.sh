#!/usr/bin/env bash
# Installs missing servers on Debian 12: install-servers.sh [mysql] [mysql-replicated] [galera] [redis] [pulsar] [pulsar-cluster]
# [oracles] [promtool] [chromium] [iptables]
#
# oracles are the packages that scripts/oracles.sh needs. MariaDB with Galera, HAProxy, Redis, Java,
# Maven, Python, Prometheus (for promtool) and Chromium are Debian packages. Installing one needs
# root. Maven downloads the jars of Pulsar, of the version CARILLON_TEST_PULSAR_VERSION, into
# $CARILLON_CACHE (default ~/.cache/carillon). A second run does nothing. A run that dies halfway
# leaves nothing that a later run would take for complete.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
PATH=$PATH:/usr/sbin:/sbin
version=${CARILLON_TEST_PULSAR_VERSION:-4.0.7}
cache=${CARILLON_CACHE:-$HOME/.cache/carillon}/pulsar-$version
wanted=("$@")
[ $# -gt 0 ] || wanted=(mysql redis pulsar)

has() { command -v "$1" >/dev/null 2>&1; }

missing=()
has openssl || missing+=(openssl) # makes the servers' certificates
for server in "${wanted[@]}"; do
  case $server in
    mysql | mysql-replicated) has mariadbd && has mariadb-install-db && has mariadb-admin || missing+=(mariadb-server) ;;
    galera)
      has mariadbd && has mariadb-install-db && has mariadb-admin || missing+=(mariadb-server)
      [ -f /usr/lib/galera/libgalera_smm.so ] || missing+=(galera-4)
      has haproxy || missing+=(haproxy)
      has rsync && has lsof || missing+=(rsync lsof) # the transfer of the data to a new node
      ;;
    redis | redis-cluster | redis-sentinel) has redis-server && has redis-cli || missing+=(redis-server) ;;
    pulsar | pulsar-cluster)
      has java || missing+=(openjdk-17-jre-headless)
      [ -d "$cache/lib" ] && { [ "$server" = pulsar ] || [ -d "$cache/proxy" ]; } || has mvn || missing+=(maven)
      has curl || missing+=(curl)
      ;;
    oracles)
      has javac || missing+=(openjdk-17-jdk-headless)
      has mvn || missing+=(maven)
      python3 -c 'import ensurepip, venv' >/dev/null 2>&1 || missing+=(python3 python3-venv)
      ;;
    promtool) has promtool || missing+=(prometheus) ;;
    iptables) has iptables || missing+=(iptables) ;;
    chromium) has chromium || missing+=(chromium) ;;
    *) echo "install-servers: unknown server $server (mysql, mysql-replicated, galera, redis, redis-cluster, redis-sentinel, pulsar, pulsar-cluster, oracles, promtool, chromium, iptables)" >&2 && exit 2 ;;
  esac
done

if [ ${#missing[@]} -gt 0 ]; then
  if ! has apt-get; then
    echo "install-servers: missing ${missing[*]}, and this host is not Debian: install them yourself" >&2
    exit 1
  fi
  if [ "$(id -u)" -ne 0 ]; then
    echo "install-servers: not root. Run once: sudo apt-get install --no-install-recommends ${missing[*]}" >&2
    exit 1
  fi
  install=(env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${missing[@]}")
  # Installing a package starts its service unless a policy forbids it. Our servers use other ports
  # and run only while they are needed.
  if [ ! -e /usr/sbin/policy-rc.d ]; then
    printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
    chmod +x /usr/sbin/policy-rc.d
    policy=/usr/sbin/policy-rc.d
    trap 'rm -f "$policy"' EXIT
  fi
  # A bare host has no package lists, or stale ones. Then fetch them and try again.
  "${install[@]}" || { apt-get update -q && "${install[@]}"; }
fi

# download POM FOLDER JAR SIZE: lets Maven copy what POM lists into $cache/FOLDER. JAR proves that it
# did. Only the holder of the exclusive lock downloads. A process that waited finds the download
# done.
download() {
  [ ! -d "$cache/$2" ] || return 0
  mkdir -p "$cache"
  exec 9>"$cache/lock"
  flock 9
  if [ ! -d "$cache/$2" ]; then
    echo "install-servers: downloading $3 ($4) into $cache"
    work=$(mktemp -d "$cache/new.XXXXXX")
    trap 'rm -rf "$work"; [ -z "${policy:-}" ] || rm -f "$policy"' EXIT # work is no local variable
    cp "$1" "$work/"
    mvn -q -B -f "$work/pom.xml" -Dpulsar.version="$version" dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory="$work/lib"
    [ -f "$work/lib/$3" ] || { echo "install-servers: Maven did not download $3" >&2 && exit 1; }
    mv "$work/lib" "$cache/$2"
    rm -rf "$work"
  fi
  exec 9>&-
}
if [[ " ${wanted[*]} " == *" pulsar"* ]]; then
  download "$here/pulsar/pom.xml" lib "pulsar-broker-$version.jar" '235 MB'
fi
if [[ " ${wanted[*]} " == *" pulsar-cluster "* ]]; then
  download "$here/pulsar/proxy/pom.xml" proxy pulsar-proxy-4.0.6.jar '2 MB'
fi
echo "install-servers: ${wanted[*]} installed"
