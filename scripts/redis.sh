#!/usr/bin/env bash
# Starts or stops a private Redis that never evicts: redis.sh up|down DIR
#
# It keeps nothing on disk, because the window can be rebuilt.
set -euo pipefail
. "$(dirname "$0")/process.sh"
arguments "$0" "$@"

start() {
  local port tls
  port=$(port redis)
  tls=$(port redis-tls)
  mkdir -p "$DIR/redis"
  spawn redis redis-server --port "$port" --bind "$ADDR" --protected-mode no --dir "$DIR/redis" --save '' --appendonly no \
    --maxmemory 1gb --maxmemory-policy noeviction --tls-port "$tls" --tls-auth-clients yes \
    --tls-ca-cert-file "$DIR/tls/ca.pem" --tls-cert-file "$DIR/tls/server.pem" --tls-key-file "$DIR/tls/server.key"
  healthy redis 20 redis-cli -e -h "$ADDR" -p "$port" PING
}

case $1 in
  up)
    alive redis || attempt redis start redis redis-tls
    export_env redis "REDIS_ADDRS=$ADDR:$(cat "$DIR/redis.port")" \
      "TEST_REDIS_TLS_ADDRS=$ADDR:$(cat "$DIR/redis-tls.port")" "TEST_TLS_DIR=$DIR/tls"
    ;;
  down)
    stop redis
    rm -f "$DIR/redis.env"
    ;;
esac
