#!/usr/bin/env bash
# Manages private servers: servers.sh up|down|wipe DIR [mysql] [mysql-replicated] [galera] [redis] [redis-cluster] [redis-sentinel] [pulsar] [pulsar-cluster]
#
# up starts the named servers in parallel (default: mysql redis pulsar), unless they run, on free
# ports of 127.0.0.1 (CARILLON_SERVERS_ADDR). It waits until they are healthy and writes DIR/env for
# sourcing: CARILLON_MYSQL_DSN, CARILLON_REDIS_ADDRS, CARILLON_REDIS_CLUSTER_ADDRS,
# CARILLON_PULSAR_URL, CARILLON_PULSAR_ADMIN_URL, and the same values as CARILLON_TEST_…. galera is a
# cluster of three MariaDB nodes: CARILLON_TEST_GALERA_DSN gives each connection another node, and
# CARILLON_TEST_GALERA_ADDRS lists the nodes. The other servers also speak TLS:
# CARILLON_TEST_MYSQL_TLS_DSN, CARILLON_TEST_REDIS_TLS_ADDRS, CARILLON_TEST_PULSAR_TLS_URL and
# CARILLON_TEST_PULSAR_TLS_ADMIN_URL require a client certificate of CARILLON_TEST_TLS_DIR.
#
# mysql-replicated is a primary with a replica: CARILLON_TEST_MYSQL_PRIMARY_DSN and
# CARILLON_TEST_MYSQL_REPLICA_DSN.
#
# A cluster's nodes are processes of their own, which its script starts and stops one by one.
# redis-sentinel gives CARILLON_TEST_REDIS_SENTINEL_ADDRS and CARILLON_TEST_REDIS_SENTINEL_MASTER.
# pulsar-cluster gives CARILLON_TEST_PULSAR_CLUSTER_URL and CARILLON_TEST_PULSAR_CLUSTER_ADMIN_URL
# with all brokers, and CARILLON_TEST_PULSAR_PROXY_URL and CARILLON_TEST_PULSAR_PROXY_ADMIN_URL.
#
# down stops what up started, and keeps data and ports for the next up. wipe deletes these too.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
usage() { sed -n 2p "$0" >&2 && exit 2; }
[ $# -ge 2 ] || usage
command=$1 dir=$2
shift 2
case $command in
  up) [ $# -gt 0 ] || set -- mysql redis pulsar ;;
  down | wipe) [ $# -gt 0 ] || set -- mysql mysql-replicated galera redis redis-cluster redis-sentinel pulsar pulsar-cluster ;;
  *) usage ;;
esac
for server in "$@"; do
  [[ $server =~ ^(mysql|mysql-replicated|galera|redis|redis-cluster|redis-sentinel|pulsar|pulsar-cluster)$ ]] || usage
done
[ "$command" = up ] || [ -d "$dir" ] || exit 0

mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
exec 9>"$dir/lock" # concurrent runs take turns; the second finds the servers up
flock 9

[ "$command" != up ] || "$here/certificates.sh" "$dir/tls" "${CARILLON_SERVERS_ADDR:-127.0.0.1}"

pids=()
verb=$command
[ "$verb" != wipe ] || verb=down

# change SERVER: runs the server's script, and says on stderr when up begins and ends: a cluster
# takes a minute.
change() {
  local began=$SECONDS
  [ "$verb" != up ] || echo "servers: $1 starts" >&2
  "$here/$1.sh" "$verb" "$dir" || return 1
  [ "$verb" != up ] || echo "servers: $1 is up after $((SECONDS - began)) s" >&2
}
for server in "$@"; do
  change "$server" &
  pids+=($!)
done
failed=0
for pid in "${pids[@]}"; do wait "$pid" || failed=1; done

for server in "$@"; do
  [ "$command" = wipe ] || break
  rm -rf "${dir:?}/$server" "$dir/$server".{log,port}
  case $server in
    redis) rm -f "$dir/redis-tls.port" ;;
    pulsar) rm -f "$dir"/pulsar-{broker,web,bookie,broker-tls,web-tls}.port ;;
    mysql-replicated | galera | redis-cluster | redis-sentinel | pulsar-cluster) rm -rf "$dir/$server"-* "$dir/$server".initialized ;;
  esac
done
shopt -s nullglob
envs=("$dir"/*.env)
if [ ${#envs[@]} -gt 0 ]; then
  cat "${envs[@]}" >"$dir/env.new" && mv "$dir/env.new" "$dir/env"
else
  rm -f "$dir/env"
  [ "$command" != wipe ] || rm -rf "$dir/tls"
fi
exit $failed
