#!/usr/bin/env bash
# Runs the five services as processes over private MariaDB, Redis and Pulsar: run-real.sh [cluster].
# bin/ must be built.
#
# With cluster, MariaDB is a Galera cluster of three, Redis a cluster of six and Pulsar one of ten
# processes, and there are two of each service. Otherwise REPLICAS=2 runs two of each. Data, logs and
# keys are in data/real or data/cluster (CARILLON_REAL_DIR). Ctrl-C, or the end of a service, stops
# every process that the script started. The data stays for the next run. The script creates the
# admin key that callers need. With CARILLON_AUTH=off they need none.
set -euo pipefail
cd "$(dirname "$0")/.."
kind=${1:-real}
case $kind in
  real) servers=(mysql redis pulsar) replicas=${REPLICAS:-1} ;;
  cluster) servers=(galera redis-cluster pulsar-cluster) replicas=${REPLICAS:-2} ;;
  *) echo "usage: run-real.sh [cluster]" >&2 && exit 2 ;;
esac
dir=${CARILLON_REAL_DIR:-data/$kind}
[[ $replicas =~ ^[1-9]$ ]] || { echo "run-real: REPLICAS must be a number from 1 to 9" >&2 && exit 2; }
mkdir -p "$dir/logs"
dir=$(cd "$dir" && pwd)
exec 8>"$dir/lock"
flock -n 8 || { echo "run-real: another run uses $dir" >&2 && exit 1; }

pids=()
finish() {
  local code=$?
  trap '' INT TERM EXIT
  echo "run-real: stopping"
  [ ${#pids[@]} -eq 0 ] || kill -TERM "${pids[@]}" 2>/dev/null || true
  for pid in ${pids[@]+"${pids[@]}"}; do wait "$pid" 2>/dev/null || true; done
  scripts/servers.sh down "$dir/servers" 8>&- || true
  echo "run-real: stopped"
  exit "$code"
}
trap finish EXIT
trap 'exit 0' INT TERM

scripts/install-servers.sh "${servers[@]}" 8>&- </dev/null
scripts/servers.sh up "$dir/servers" "${servers[@]}" 8>&- </dev/null
set -a
. "$dir/servers/env"
if [ "$kind" = cluster ]; then
  CARILLON_MYSQL_DSN="carillon:carillon@tcp($CARILLON_TEST_GALERA_ADDRS)/carillon"
  CARILLON_REDIS_ADDRS=$CARILLON_TEST_REDIS_CLUSTER_ADDRS
  CARILLON_PULSAR_URL=$CARILLON_TEST_PULSAR_CLUSTER_URL CARILLON_PULSAR_ADMIN_URL=$CARILLON_TEST_PULSAR_CLUSTER_ADMIN_URL
fi
set +a
# Keys from the environment take precedence over the generated ones.
scripts/keys.sh "$dir/keys" 8>&- </dev/null
who='Callers need keys.' first=''
while IFS= read -r line; do
  name=${line%%=*} file=${line%%=*}_FILE
  [ -z "${!name:-}${!file:-}" ] || continue
  export "$line"
  [ "$name" != CARILLON_ADMIN_KEY ] || who="Callers need keys; CARILLON_ADMIN_KEY in $dir/keys has full access." first=". '$dir/keys'; "
done <"$dir/keys"
key='-H "Authorization: Bearer $CARILLON_ADMIN_KEY" '
[ "${CARILLON_AUTH:-}" != off ] || who='CARILLON_AUTH is off: everybody who reaches the API has full access.' first= key=
export CARILLON_CALLBACK_ALLOW_PRIVATE=${CARILLON_CALLBACK_ALLOW_PRIVATE:-true} CARILLON_LOG_FORMAT=pretty
unset CARILLON_ADMIN_ADDR
http=${CARILLON_HTTP_ADDR:-127.0.0.1:8080}

# start NAME HTTP_ADDR COMMAND…: starts the command in its own session. So Ctrl-C in the terminal
# reaches only this script, which then stops each process in order. A second signal would kill them.
start() {
  local name=$1 addr=$2
  shift 2
  : >"$dir/logs/$name.log"
  CARILLON_HTTP_ADDR=$addr CARILLON_ADMIN_ADDR=127.0.0.1:0 setsid "$@" </dev/null 8>&- \
    2> >(tee "$dir/logs/$name.log" 8>&- | sed -u "s/^/[$name] /" 8>&-) > >(sed -u "s/^/[$name] /" 8>&-) &
  pids+=($!)
}

# address NAME PHRASE: waits for the log line in which a program names its listening address, and
# prints that.
address() {
  local addr
  for _ in $(seq 600); do
    addr=$(sed -nE "s/.* $2 .*addr=([^ ]+).*/\1/p" "$dir/logs/$1.log" | head -1)
    [ -z "$addr" ] || { echo "$addr" && return; }
    sleep 0.1
  done
  echo "run-real: $1 did not log \"$2\": see $dir/logs/$1.log" >&2
  return 1
}

start echo 127.0.0.1:0 bin/carillon echo
names=()
for service in migrator scheduler trigger executor api; do
  for ((i = 1; i <= replicas; i++)); do
    name=$service
    [ "$replicas" -eq 1 ] || name=$service-$i
    start "$name" "$([ "$name" = api ] || [ "$name" = api-1 ] && echo "$http" || echo 127.0.0.1:0)" "bin/carillon-$service"
    names+=("$name")
  done
done
for name in "${names[@]}"; do
  admin=$(address "$name" 'admin listening')
  until curl -fsS -o /dev/null "http://$admin/readyz" 2>/dev/null; do
    for pid in "${pids[@]}"; do
      kill -0 "$pid" 2>/dev/null || { echo "run-real: a process exited: see $dir/logs" >&2 && exit 1; }
    done
    sleep 0.2
  done
done

endpoint=$(address echo 'http listening')
for name in "${names[@]}"; do
  [[ $name != api* ]] || echo "Carillon's $name is at http://$(address "$name" 'http listening')"
done
api=$(address "$([ "$replicas" -eq 1 ] && echo api || echo api-1)" 'http listening')
cat <<TEXT

All is ready; data and logs are in $dir. $who
In another terminal, this creates a timer that calls an endpoint here in 3 seconds:

${first}curl -s http://$api/api/v2/timers $key-H 'Content-Type: application/json' -d '{"app":"demo","name":"hello-'\$(date +%s)'","status":"active","schedule":{"kind":"delay","delay":"3s"},"target":{"kind":"http","url":"http://$endpoint/dev/echo","method":"POST","body":"hello"}}'

TEXT
code=0
wait -n "${pids[@]}" || code=$?
echo "run-real: a process exited (code $code): see $dir/logs" >&2
exit 1
