#!/usr/bin/env bash
# Measures Carillon and its peers one after the other on this machine, and prints a table:
# bench-peers.sh [RATES] [LENGTH], by default 1000,2000,4000,6000,8000 and 20s.
#
# Each system has its own servers, which run only while it is measured. asynq uses Redis, River
# PostgreSQL, Carillon (five processes) MySQL, Redis and Pulsar. The receiver and the calls are the
# same. See docs/benchmarks.md.
set -euo pipefail
cd "$(dirname "$0")/.."
rates=${1:-1000,2000,4000,6000,8000}
length=${2:-20s}
if ! ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1; then
  [ "$(id -u)" = 0 ] || { echo 'bench-peers: install postgresql first' >&2 && exit 1; }
  DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends postgresql >&2
fi
mkdir -p .cache
dir=$(mktemp -d "$PWD/.cache/peers.XXXXXX")
chmod 755 "$dir"
finish() {
  local code=$?
  trap '' INT TERM
  scripts/postgres.sh down "$dir" || true
  scripts/redis.sh down "$dir" || true
  rm -rf "$dir"
  exit "$code"
}
trap finish EXIT

phases=
for rate in ${rates//,/ }; do phases+=${phases:+,}rate:$rate:$length; done
for runner in allinone real; do
  command=(go run ./e2e/load/cmd/carillon-load -runners "$runner" -phases "$phases" -conns 16 -batch 500 -json "$dir/$runner.json")
  [ "$runner" = allinone ] || command=(scripts/with-servers.sh mysql redis pulsar -- "${command[@]}")
  "${command[@]}" >&2 || true # the table shows what is missing
done

(cd e2e/peers && GOWORK=off go build -o "$dir/carillon-peers" ./cmd/carillon-peers)
scripts/certificates.sh "$dir/tls" 127.0.0.1 # for the script of Redis
scripts/redis.sh up "$dir"
. "$dir/redis.env"
"$dir/carillon-peers" -redis "$CARILLON_REDIS_ADDRS" -rates "$rates" -length "$length" \
  -json "$dir/asynq.json" >/dev/null
scripts/redis.sh down "$dir"
scripts/postgres.sh up "$dir"
. "$dir/postgres.env"
"$dir/carillon-peers" -postgres "$CARILLON_TEST_POSTGRES_DSN" -rates "$rates" -length "$length" \
  -json "$dir/river.json" >/dev/null
"$dir/carillon-peers" -rates '' -add "$dir/allinone.json,$dir/real.json,$dir/asynq.json,$dir/river.json"
