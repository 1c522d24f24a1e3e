#!/usr/bin/env bash
# Starts or stops a private Redis Cluster of three nodes without replicas: redis-cluster.sh up|down
# DIR
#
# It keeps nothing on disk.
set -euo pipefail
. "$(dirname "$0")/process.sh"
arguments "$0" "$@"
nodes=(redis-cluster-1 redis-cluster-2 redis-cluster-3)

node() {
  local port
  port=$(port "$1")
  mkdir -p "$DIR/$1"
  rm -f "$DIR/$1/nodes.conf" # a stopped cluster has lost its data, so it is created again
  spawn "$1" redis-server --port "$port" --bind 127.0.0.1 --dir "$DIR/$1" --save '' --appendonly no \
    --maxmemory 256mb --maxmemory-policy noeviction --cluster-enabled yes --cluster-config-file nodes.conf \
    --cluster-port "$(port "$1-bus")"
  healthy "$1" 20 redis-cli -e -p "$port" PING
}

addrs() {
  local n
  for n in "${nodes[@]}"; do printf '127.0.0.1:%s ' "$(cat "$DIR/$n.port")"; done
}

ready() { redis-cli -p "$(cat "$DIR/redis-cluster-1.port")" CLUSTER INFO | grep -q '^cluster_state:ok'; }

start() {
  local n
  for n in "${nodes[@]}"; do
    stop "$n"
    node "$n" || return 1
  done
  # shellcheck disable=SC2046 # one word per node
  redis-cli --cluster create $(addrs) --cluster-replicas 0 --cluster-yes >>"$DIR/redis-cluster.log" 2>&1 || return 1
  for n in "${nodes[@]}"; do
    healthy "$n" 20 ready || return 1
  done
}

case $1 in
  up)
    for n in "${nodes[@]}"; do
      alive "$n" || { attempt redis-cluster start "${nodes[@]}" "${nodes[@]/%/-bus}" && break; }
    done
    list=$(addrs)
    list=${list% }
    export_env redis-cluster "REDIS_CLUSTER_ADDRS=${list// /,}"
    ;;
  down)
    for n in "${nodes[@]}"; do stop "$n"; done
    rm -f "$DIR/redis-cluster.env"
    ;;
esac
