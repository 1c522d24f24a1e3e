#!/usr/bin/env bash
# Runs COMMAND with servers: with-servers.sh SERVER… -- COMMAND…, with the names of servers.sh
#
# It installs missing servers, runs them in a directory of this run, and stops and deletes them when
# the command ends in any way. If a server cannot be installed, a warning says so: its tests skip,
# or fail where CARILLON_TEST_REQUIRE names it. Servers that the environment already names
# (CARILLON_TEST_MYSQL_DSN and the like) are used and left alone.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(dirname "$here")

declare -A named=(
  [mysql]=CARILLON_TEST_MYSQL_DSN [galera]=CARILLON_TEST_GALERA_DSN [redis]=CARILLON_TEST_REDIS_ADDRS
  [redis-cluster]=CARILLON_TEST_REDIS_CLUSTER_ADDRS [redis-sentinel]=CARILLON_TEST_REDIS_SENTINEL_ADDRS
  [pulsar]=CARILLON_TEST_PULSAR_URL [pulsar-cluster]=CARILLON_TEST_PULSAR_CLUSTER_URL
)
servers=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do
  variable=${named[$1]:?no server called $1}
  if [ -n "${!variable:-}" ]; then
    echo "with-servers: using $1 from \$$variable"
  else
    servers+=("$1")
  fi
  shift
done
[ $# -gt 1 ] || { sed -n 2p "$0" >&2 && exit 2; }
shift

mkdir -p "$root/.cache"
dir=$(mktemp -d "$root/.cache/servers.XXXXXX")
child=
finish() {
  local code=$?
  trap '' INT TERM
  "$here/servers.sh" wipe "$dir" >/dev/null 2>&1 || echo "with-servers: cannot stop everything in $dir" >&2
  rm -rf "$dir"
  exit "$code"
}
trap finish EXIT
trap '[ -z "$child" ] || kill -INT -- "-$child" 2>/dev/null; [ -n "$child" ] || exit 130' INT
trap '[ -z "$child" ] || kill -TERM -- "-$child" 2>/dev/null; [ -n "$child" ] || exit 143' TERM

# If they do not start together, start them one by one, so that one failure does not remove the
# others.
began=$SECONDS
up() { "$here/install-servers.sh" "$@" && "$here/servers.sh" up "$dir" "$@"; }
if [ ${#servers[@]} -gt 0 ] && ! up "${servers[@]}" </dev/null; then
  for server in "${servers[@]}"; do
    up "$server" </dev/null || printf '\n!!! NO %s: tests that need it are SKIPPED !!!\n\n' "$server" >&2
  done
fi
if [ -f "$dir/env" ]; then
  set -a
  . "$dir/env"
  set +a
fi
echo "with-servers: up after $((SECONDS - began)) s: ${servers[*]:-none}"

# In its own process group, so that a signal reaches the whole command and none of the servers.
set -m
"$@" </dev/null &
child=$!
set +m
code=0
wait "$child" || code=$?
while kill -0 "$child" 2>/dev/null; do # a signal ended the first wait, not the command
  code=0
  wait "$child" || code=$?
done
exit "$code"
