#!/usr/bin/env bash
# Starts or stops a private Redis Cluster: redis-cluster.sh up|down DIR [NODE…]
#
# It has three masters with a replica each, and keeps nothing on disk. NODE is one of them, such as
# redis-cluster-2. Without NODE, up starts those that do not run.
set -euo pipefail
. "$(dirname "$0")/process.sh"
arguments "$0" "$@"
nodes=(redis-cluster-{1,2,3,4,5,6})

# node NAME: starts a node, on the port that the other nodes know.
node() {
  mkdir -p "$DIR/$1"
  spawn "$1" redis-server --port "$(fixed "$1")" --bind 127.0.0.1 --dir "$DIR/$1" --save '' --appendonly no \
    --maxmemory 256mb --maxmemory-policy noeviction --cluster-enabled yes --cluster-config-file nodes.conf \
    --cluster-port "$(fixed "$1-bus")" --cluster-node-timeout 2000 --cluster-require-full-coverage no \
    --cluster-replica-validity-factor 0
  healthy "$1" 20 redis-cli -e -p "$(fixed "$1")" PING
}

addrs() {
  local n
  for n in "${nodes[@]}"; do printf '127.0.0.1:%s ' "$(cat "$DIR/$n.port")"; done
}

# ready NODE: succeeds if the node sees all slots served, and has the data of its master.
ready() {
  local port
  port=$(cat "$DIR/$1.port")
  redis-cli -p "$port" CLUSTER INFO | grep -q '^cluster_state:ok' &&
    redis-cli -p "$port" CLUSTER INFO | grep -q '^cluster_slots_ok:16384' &&
    redis-cli -p "$port" INFO replication | grep -qE '^(role:master|master_link_status:up)'
}

# create starts all nodes, and makes a cluster of them. A stopped cluster has lost its data, so it
# is created again.
create() {
  local n
  for n in "${nodes[@]}"; do
    stop "$n"
    rm -f "$DIR/$n/nodes.conf"
    port "$n" >/dev/null
    port "$n-bus" >/dev/null
    node "$n" || return 1
  done
  # shellcheck disable=SC2046 # one word per node
  redis-cli --cluster create $(addrs) --cluster-replicas 1 --cluster-yes >>"$DIR/redis-cluster.log" 2>&1 || return 1
  for n in "${nodes[@]}"; do
    healthy "$n" 30 ready "$n" || return 1
  done
}

wanted=("${@:3}")
[ ${#wanted[@]} -gt 0 ] || wanted=("${nodes[@]}")
case $1 in
  up)
    running=0
    for n in "${nodes[@]}"; do ! alive "$n" || running=$((running + 1)); done
    if [ $running = 0 ]; then
      attempt redis-cluster create "${nodes[@]}" "${nodes[@]/%/-bus}"
    else
      # All of them first: while other masters are down, none is ready.
      for n in "${wanted[@]}"; do
        alive "$n" || node "$n" || { tail -n 20 "$DIR/$n.log" >&2 && exit 1; }
      done
      for n in "${wanted[@]}"; do
        healthy "$n" 30 ready "$n" || { tail -n 20 "$DIR/$n.log" >&2 && exit 1; }
      done
    fi
    list=$(addrs)
    list=${list% }
    export_env redis-cluster "REDIS_CLUSTER_ADDRS=${list// /,}"
    ;;
  down)
    for n in "${wanted[@]}"; do stop "$n"; done
    [ $# -gt 2 ] || rm -f "$DIR/redis-cluster.env"
    ;;
esac
