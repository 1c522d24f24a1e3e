#!/usr/bin/env bash
# Runs the five services as processes over private MariaDB, Redis and Pulsar: run-real.sh [cluster].
# bin/ must be built.
#
# With cluster, MariaDB is a Galera cluster of three, Redis a cluster of six and Pulsar one of ten
# processes, and there are two of each service. Otherwise REPLICAS=2 runs two of each. Data, logs and
# keys are in data/real or data/cluster (CARILLON_REAL_DIR). Ctrl-C stops every process that the
# script started, and so does the end of a service of which there is only one. Where there are
# several, a service that ends is started again, as Kubernetes would. The script never starts a
# server's node again. pids/NAME has the pid of a service, servers/NAME.pid that of a node. The data
# stays for the next run. The script creates the admin key that callers need. With
# CARILLON_AUTH=off they need none.
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
mkdir -p "$dir/logs" "$dir/pids"
dir=$(cd "$dir" && pwd)
exec 8>"$dir/lock"
flock -n 8 || { echo "run-real: another run uses $dir" >&2 && exit 1; }

declare -A pids=() addrs=() # of each process, by its name
finish() {
  local code=$?
  trap '' INT TERM EXIT
  echo "run-real: stopping"
  [ ${#pids[@]} -eq 0 ] || kill -TERM "${pids[@]}" 2>/dev/null || true
  for pid in "${pids[@]}"; do wait "$pid" 2>/dev/null || true; done
  rm -rf "$dir/pids"
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
  : >>"$dir/logs/$name.log" # address reads it at once
  CARILLON_HTTP_ADDR=$addr CARILLON_ADMIN_ADDR=127.0.0.1:0 setsid "$@" </dev/null 8>&- \
    2> >(tee -a "$dir/logs/$name.log" 8>&- | sed -u "s/^/[$name] /" 8>&-) > >(sed -u "s/^/[$name] /" 8>&-) &
  pids[$name]=$!
  echo $! >"$dir/pids/$name"
}

# begin NAME HTTP_ADDR: starts a program whose name is that of its service, with or without a number.
begin() {
  if [ "$1" = echo ]; then start echo "$2" bin/carillon echo; else start "$1" "$2" "bin/carillon-${1%-[0-9]}"; fi
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

rm -f "$dir"/logs/*.log
begin echo 127.0.0.1:0
names=()
for service in migrator scheduler trigger executor api; do
  for ((i = 1; i <= replicas; i++)); do
    name=$service
    [ "$replicas" -eq 1 ] || name=$service-$i
    begin "$name" "$([ "$name" = api ] || [ "$name" = api-1 ] && echo "$http" || echo 127.0.0.1:0)"
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

addrs[echo]=$(address echo 'http listening')
for name in "${names[@]}"; do
  [[ $name == api* ]] || continue
  addrs[$name]=$(address "$name" 'http listening')
  echo "Carillon's $name is at http://${addrs[$name]}"
done
endpoint=${addrs[echo]} api=${addrs[api]:-${addrs[api-1]:-}}
cat <<TEXT

All is ready; data and logs are in $dir. $who
In another terminal, this creates a timer that calls an endpoint here in 3 seconds:

${first}curl -s http://$api/api/v2/timers $key-H 'Content-Type: application/json' -d '{"app":"demo","name":"hello-'\$(date +%s)'","status":"active","schedule":{"kind":"delay","delay":"3s"},"target":{"kind":"http","url":"http://$endpoint/dev/echo","method":"POST","body":"hello"}}'

TEXT
if [ "$replicas" -gt 1 ]; then
  cat <<TEXT
To try failures, kill processes. A service that ends is started again within 2 s; its pid is in
$dir/pids/NAME. A server's node is not; its pid is in
$dir/servers/NAME.pid. This starts killed nodes again:
scripts/servers.sh up '$dir/servers' ${servers[*]}

TEXT
fi
# Without the redirection, bash prints the whole command of a process that was killed meanwhile.
while { sleep 1; } 2>/dev/null; do
  for name in "${!pids[@]}"; do
    pid=${pids[$name]} code=0
    ! kill -0 "$pid" 2>/dev/null || continue
    wait "$pid" || code=$?
    if [ "$replicas" -eq 1 ]; then
      echo "run-real: $name ended (code $code): see $dir/logs" >&2
      exit 1
    fi
    begin "$name" "${addrs[$name]:-127.0.0.1:0}" # callers know the addresses
    echo "run-real: $name (pid $pid) ended with code $code and is started again as pid ${pids[$name]}"
  done
done
