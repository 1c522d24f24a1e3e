#!/usr/bin/env bash
# Runs the tests on other versions of MariaDB, MySQL, Redis, Valkey and Pulsar: test-versions.sh [NAME…]
#
# Without names it takes all of scripts/versions/list.tsv, a few minutes each. Every version runs the
# suites of the code that uses the server, and some scenarios of the five services, whose other
# servers have their usual version. What passes is written into scripts/versions/results.tsv and into
# the table of docs/servers.md. The command fails if a version fails or cannot be installed.
set -euo pipefail
cd "$(dirname "$0")/.."
PATH=$PATH:/usr/sbin:/sbin
list=scripts/versions/list.tsv results=scripts/versions/results.tsv document=docs/servers.md
scenarios='^(TestP1NeverEarlyAThousandAtOnce|TestP6AcceptedMeansDurable|TestFailedFiresAreRedriven|TestEditSupersedes|TestBackfill)$/^real$'
export CARILLON_BIN=$PWD/bin
known=$(cut -f1 "$list" | grep -v '^#')
[ $# -gt 0 ] || set -- $known

# version SERVER: prints the version that the programs in PATH report.
version() {
  case $1 in
    mysql) { [ -n "${CARILLON_TEST_MYSQL_HOME:-}" ] && [ ! -e "$CARILLON_TEST_MYSQL_HOME/bin/mariadbd" ] && mysqld --version || mariadbd --version; } |
      sed -E 's/.*Ver ([0-9.]+).*/\1/' ;;
    redis) redis-server --version | sed -E 's/.* v=([0-9.]+) .*/\1/' ;;
    pulsar) echo "${CARILLON_TEST_PULSAR_VERSION:-4.0.7}" ;;
  esac
}

# suites SERVER: runs the tests against the servers of the environment.
suites() {
  case $1 in
    mysql) go test -count=1 -timeout 20m -run 'MySQL' ./libs/store/sqlstore ./libs/selfcheck ;;
    redis) go test -count=1 -timeout 20m ./libs/window/rediswindow ./libs/limit/redisstate ;;
    pulsar) go test -count=1 -timeout 20m ./libs/bus/pulsarbus ./libs/bus/pulsartopics ./libs/bus/pulsaradmin ;;
  esac && go test -count=1 -timeout 20m -run "$scenarios" ./e2e/scenario
}

# passed NAME VERSION: records a run that passed, and writes the table.
passed() {
  local new
  new=$(mktemp)
  { awk -F'\t' -v name="$1" '$1 != name' "$results" && printf '%s\t%s\t%s\n' "$1" "$2" "$(date -u +%F)"; } >"$new"
  sort "$new" >"$results"
  awk -F'\t' '
    FNR == 1 { file++ }
    file == 1 { rows = rows sprintf("| %s | %s | %s |\n", $1, $2, $3); next }
    /^<!-- end of versions -->/ { inside = 0 }
    !inside { print }
    /^<!-- versions -->/ { inside = 1; printf "\n| tested | version | last run |\n|---|---|---|\n%s\n", rows }
  ' "$results" "$document" >"$new"
  cat "$new" >"$document"
  rm "$new"
}

# one NAME SERVER SOURCE WHAT…: installs one version, tests it, and records that it passed.
one() {
  local name=$1 server=$2 from=$3 home servers=(mysql redis pulsar)
  shift 3
  # The suites of Redis also want its two kinds of cluster.
  [ "$server" != redis ] || servers+=(redis-cluster redis-sentinel)
  printf '\n== %s\n' "$name"
  case $from in
    host) ;;
    maven) export CARILLON_TEST_PULSAR_VERSION=$1 ;;
    *)
      home=$(scripts/versions/install.sh "$name" "$from" "$@") || return 1
      [ "$server" = redis ] && export CARILLON_TEST_REDIS_HOME=$home || export CARILLON_TEST_MYSQL_HOME=$home
      PATH=$home/bin:$PATH
      # Else the tests would run on the version of the host.
      [ -x "$home/bin/redis-server" ] || [ -x "$home/bin/mariadbd" ] || [ -x "$home/bin/mysqld" ] ||
        { echo "test-versions: $home has no server: remove it, to install it again" >&2 && return 1; }
      ;;
  esac
  CARILLON_TEST_REQUIRE=mysql,redis,pulsar timeout --foreground 30m scripts/with-servers.sh "${servers[@]}" -- "$0" --suites "$server" || return 1
  passed "$name" "$(version "$server")"
}

if [ "$1" = --suites ]; then
  suites "$2"
  exit
fi
failed=()
for name in "$@"; do
  line=$(grep -P "^\Q$name\E\t" "$list") || { echo "test-versions: $name is none of: "$known >&2 && exit 2; }
  # In a process of its own, whose environment names the version.
  (one $line) || failed+=("$name")
done
[ ${#failed[@]} -eq 0 ] || { echo "test-versions: failed or not to be had: ${failed[*]}" >&2 && exit 1; }
