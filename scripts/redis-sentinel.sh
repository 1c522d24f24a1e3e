#!/usr/bin/env bash
# Starts or stops a private Redis with Sentinel: redis-sentinel.sh up|down DIR [NODE…]
#
# It has a master and two replicas, redis-sentinel-server-1 to 3, and three sentinels,
# redis-sentinel-1 to 3. Nothing is on disk. Without NODE, up starts those that do not run.
set -euo pipefail
. "$(dirname "$0")/process.sh"
arguments "$0" "$@"
master=carillon
servers=(redis-sentinel-server-{1,2,3})
sentinels=(redis-sentinel-{1,2,3})

# server NAME: starts a server. The sentinels make it the replica of another one if they know it.
server() {
  local replica=()
  [ "$1" = "${servers[0]}" ] || replica=(--replicaof "127.0.0.1 $(fixed "${servers[0]}")")
  mkdir -p "$DIR/$1"
  spawn "$1" redis-server --port "$(fixed "$1")" --bind 127.0.0.1 --dir "$DIR/$1" --save '' --appendonly no \
    --maxmemory 256mb --maxmemory-policy noeviction ${replica[@]+"${replica[@]}"}
  healthy "$1" 20 redis-cli -e -p "$(fixed "$1")" PING
}

# sentinel NAME: starts a sentinel. It writes what it learns into its file of settings.
sentinel() {
  mkdir -p "$DIR/$1"
  [ -e "$DIR/$1/sentinel.conf" ] || cat >"$DIR/$1/sentinel.conf" <<TEXT
port $(fixed "$1")
bind 127.0.0.1
dir $DIR/$1
sentinel monitor $master 127.0.0.1 $(fixed "${servers[0]}") 2
sentinel down-after-milliseconds $master 2000
sentinel failover-timeout $master 10000
sentinel parallel-syncs $master 2
TEXT
  spawn "$1" redis-server "$DIR/$1/sentinel.conf" --sentinel
  healthy "$1" 20 redis-cli -e -p "$(fixed "$1")" PING
}

# quorum NAME: succeeds if the sentinel reaches enough others, and knows both replicas.
quorum() {
  local port
  port=$(cat "$DIR/$1.port")
  redis-cli -p "$port" SENTINEL CKQUORUM "$master" | grep -q '^OK' &&
    [ "$(redis-cli -p "$port" SENTINEL REPLICAS "$master" | grep -c '^name$')" = 2 ]
}

create() {
  local n
  for n in "${servers[@]}" "${sentinels[@]}"; do
    stop "$n"
    rm -f "$DIR/$n/sentinel.conf"
    port "$n" >/dev/null
  done
  for n in "${servers[@]}"; do server "$n" || return 1; done
  for n in "${sentinels[@]}"; do sentinel "$n" || return 1; done
  # They meet through the master, and learn of its replicas every 10 s.
  for n in "${sentinels[@]}"; do healthy "$n" 40 quorum "$n" || return 1; done
}

addrs() {
  local n out=
  for n in "${sentinels[@]}"; do out+=,127.0.0.1:$(cat "$DIR/$n.port"); done
  echo "${out#,}"
}

wanted=("${@:3}")
[ ${#wanted[@]} -gt 0 ] || wanted=("${servers[@]}" "${sentinels[@]}")
case $1 in
  up)
    running=0
    for n in "${servers[@]}"; do ! alive "$n" || running=$((running + 1)); done
    if [ $running = 0 ]; then
      attempt redis-sentinel create "${servers[@]}" "${sentinels[@]}"
    else
      for n in "${wanted[@]}"; do
        alive "$n" && continue
        case $n in *-server-*) server "$n" ;; *) sentinel "$n" ;; esac || { tail -n 20 "$DIR/$n.log" >&2 && exit 1; }
      done
    fi
    export_env redis-sentinel "TEST_REDIS_SENTINEL_ADDRS=$(addrs)" "TEST_REDIS_SENTINEL_MASTER=$master"
    ;;
  down)
    for n in "${wanted[@]}"; do stop "$n"; done
    [ $# -gt 2 ] || rm -f "$DIR/redis-sentinel.env"
    ;;
esac
