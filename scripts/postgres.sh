#!/usr/bin/env bash
# Starts or stops a private PostgreSQL for scripts/bench-peers.sh: postgres.sh up|down DIR
#
# It commits as safely as PostgreSQL does by default, with a gigabyte of buffers and of log.
set -euo pipefail
. "$(dirname "$0")/process.sh"
arguments "$0" "$@"

# PostgreSQL refuses to run as root.
as_user() { if [ "$(id -u)" = 0 ]; then runuser -u postgres -- "$@"; else "$@"; fi; }

start() {
  local bin port data=$DIR/postgres
  bin=$(ls -d /usr/lib/postgresql/*/bin | sort -V | tail -1)
  port=$(port postgres)
  mkdir -p "$data"
  [ "$(id -u)" != 0 ] || chown -R postgres "$data"
  [ -s "$data/PG_VERSION" ] || as_user "$bin/initdb" -D "$data" -U carillon --auth=trust -E UTF8 >"$DIR/initdb.log"
  spawn postgres setpriv --reuid "$(stat -c %u "$data")" --clear-groups "$bin/postgres" -D "$data" -p "$port" -h "$ADDR" -k '' \
    -c max_connections=100 -c shared_buffers=1GB -c max_wal_size=4GB
  healthy postgres 30 "$bin/pg_isready" -h "$ADDR" -p "$port"
}

case $1 in
  up)
    alive postgres || attempt postgres start postgres
    export_env postgres "TEST_POSTGRES_DSN=postgres://carillon@$ADDR:$(cat "$DIR/postgres.port")/postgres?sslmode=disable"
    ;;
  down)
    stop postgres
    rm -f "$DIR/postgres.env"
    ;;
esac
