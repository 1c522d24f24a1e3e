#!/usr/bin/env bash
# Runs the tests and lists the skipped ones: test.sh [-all | PACKAGE…]. It uses the servers that the
# environment names.
#
# Without arguments it runs for some minutes: unit tests and suites without the race detector, five
# seeds of the simulation, the scenarios in one process, and the short fault run on real servers.
# -all is what CI runs: unit tests and suites with the race detector, each suite also with other
# settings, 100 seeds, the oracles, the scenarios in both ways of running, and the short fault run.
#
# Four kinds always run without the race detector, which would make them many times slower:
# schedules, calendars, texts of YAML, and three tests of the store, which start no goroutine; the
# store's suite on restored backups, whose other runs have it; the simulation; and tests that start
# their own programs. So does the test of topics that are gone: Pulsar's client closes the channel
# into which it sends, and the panic that may follow is recovered. The scenarios mostly wait, so the
# simulation runs beside them. The output has a line per package, everything about a failure, each
# skip, and a line of progress every 20 seconds.
set -euo pipefail
cd "$(dirname "$0")/.."
module=github.com/carillon-timer/carillon
tmp=$(mktemp -d)
log=$tmp/log
simulation= # process group of the running simulation
faults=     # process group of the running fault run
pauses=$tmp/pauses # a line per pause of the machine, in ms
monitor=           # process that looks for pauses
trap 'for s in $simulation $faults; do kill -- "-$s" && wait "$s" || true; done; [ -z "$monitor" ] || kill "$monitor" || true; rm -rf "$tmp"' EXIT
GOFLAGS="$(go env GOFLAGS) -trimpath" # as in the Makefile, so that nothing is compiled twice
export GOFLAGS
export CARILLON_BIN=${CARILLON_BIN:-$PWD/bin}
scope=quick
[ "${1:-}" != -all ] || { scope=all && shift; }
# If the client cannot be installed, its test skips, or fails where CARILLON_TEST_REQUIRE names
# python.
CARILLON_TEST_PULSAR_CLIENT=${CARILLON_TEST_PULSAR_CLIENT:-$(scripts/pulsar-client.sh || true)}
export CARILLON_TEST_PULSAR_CLIENT

# Reference implementations to compare with. Without them their tests skip, or fail where
# CARILLON_TEST_REQUIRE names oracles.
if [ $scope = all ]; then
  # Without a browser the tests of the page skip, or fail where CARILLON_TEST_REQUIRE names
  # chromium.
  scripts/install-servers.sh chromium </dev/null >&2 ||
    printf '\n!!! NO CHROMIUM: the page is NOT TESTED in a browser !!!\n\n' >&2
  if oracles=$(scripts/oracles.sh </dev/null); then
    export CARILLON_TEST_ORACLES=$oracles
  else
    printf '\n!!! NO ORACLES: schedules and calendars are NOT COMPARED with other implementations !!!\n\n' >&2
  fi
  if webhooks=${CARILLON_TEST_WEBHOOKS:-$(scripts/webhooks-oracle.sh </dev/null)}; then
    export CARILLON_TEST_WEBHOOKS=$webhooks
  else
    printf '\n!!! NO WEBHOOKS ORACLE: signatures are NOT VERIFIED by another implementation !!!\n\n' >&2
  fi
  if provider=${CARILLON_TEST_OIDC:-$(scripts/oidc-oracle.sh </dev/null)}; then
    export CARILLON_TEST_OIDC=$provider
  else
    printf '\n!!! NO IDENTITY PROVIDERS: the sign-in is NOT TESTED with those of others !!!\n\n' >&2
  fi
  if described=${CARILLON_TEST_SCHEMATHESIS:-$(scripts/schemathesis-oracle.sh </dev/null)}; then
    export CARILLON_TEST_SCHEMATHESIS=$described
  else
    printf '\n!!! NO SCHEMATHESIS: the API is NOT COMPARED with its description !!!\n\n' >&2
  fi
fi

# brief filters the output of go test -v. It holds a package's output until the last line tells the
# result, and then leaves out the passed tests. It keeps data races: the detector reports them under
# the test that ran last. At the end it repeats the failed assertions without the logs around them.
brief() {
  awk '
    function show(  i) {
      for (i = 1; i <= n; i++) if (order[i] in held) printf "%s%s", order[i] == "" ? "" : "=== " order[i] "\n", held[order[i]]
      if (asserted != "") printf "=== failed assertions\n%s", asserted
    }
    function forget() { delete held; delete known; n = 0; of = asserted = ""; asserting = 0 }
    /^=== (RUN|PAUSE|CONT|NAME) / { of = $3; next }
    /^ *--- PASS: / { delete held[$3]; of = ""; next }
    /^WARNING: DATA RACE/ { race = 1 }
    /^(ok  |\?   |FAIL\t|--- FAIL.*build)/ || /^FAIL$/ && n == 0 {
      if ($0 ~ /^FAIL/) show()
      forget(); print; fflush(); next
    }
    {
      name = race ? "" : of
      if (!(name in known)) { known[name]; order[++n] = name }
      held[name] = held[name] $0 "\n"
    }
    /^ *\t/ && (asserting || /Error Trace:/) { asserting = 1; asserted = asserted $0 "\n"; next }
    { asserting = 0 }
    /^==================$/ { race = 0 }
    END { show() }'
}

# skipped reads the output of go test -v. For each reason it prints which tests were skipped for it,
# and how many of their subtests.
skipped() {
  awk '
    /^=== (RUN|PAUSE|CONT|NAME) / { of = $3; next }
    /^ *--- SKIP: / && !($3 in seen) {
      seen[$3]
      why = $3 in said ? said[$3] : "without a reason"
      at = index(why, $3 " ")
      if (at) why = substr(why, 1, at - 1) substr(why, at + length($3) + 1)
      sub(/^(!!! )?(SKIPPED, )?(UNTESTED:? )?/, "", why)
      top = $3
      sub(/\/.*/, "", top)
      if (!((why, top) in n)) names[why] = names[why] SUBSEP top
      n[why, top]++
      next
    }
    /^ +[A-Za-z0-9_]+\.go:[0-9]+: / { sub(/^[^:]*:[0-9]+: /, ""); said[of] = $0 }
    END {
      for (why in names) {
        line = ""
        count = split(substr(names[why], 2), tops, SUBSEP)
        for (i = 1; i <= count; i++)
          line = line (i > 1 ? ", " : "") tops[i] (n[why, tops[i]] > 1 ? " (" n[why, tops[i]] ")" : "")
        printf "  %s: %s\n", why, line
      }
    }' | sort
}

# ticks prints the CPU time since boot, and how much of it was CPU steal, and how much was idle.
ticks() { awk '/^cpu / { for (i = 2; i <= 9; i++) all += $i; print all, $9, $5 + $6 }' /proc/stat 2>/dev/null || echo 0 0 0; }

# monitor_pauses writes a line for each time in which the whole machine paused for 3 s or more, as
# a virtual machine does while its host moves or saves it. A sleep of 200 ms then takes that long.
# What the tests themselves do cannot delay it so much: it reads no file and starts no process.
monitor_pauses() {
  local before=${EPOCHREALTIME/[.,]/} now
  exec {never}<> <(:)
  while :; do
    read -rt 0.2 -u "$never" || true
    now=${EPOCHREALTIME/[.,]/}
    [ $((now - before)) -lt 3200000 ] || {
      echo $(((now - before) / 1000))
      printf '\n!!! THE MACHINE PAUSED FOR %d ms !!!\n' $(((now - before) / 1000)) >&2
    }
    before=$now
  done
}

# progress FILE: prints every 20 s how many tests have passed, according to FILE and the outputs of
# running programs, until it is killed.
progress() {
  local began=$SECONDS
  while sleep 20; do
    printf '   … %d s, %d tests passed\n' $((SECONDS - began)) \
      "$(cat "$1" "$tmp"/running/* 2>/dev/null | grep -c -- '--- PASS: ')"
  done
}

# build_programs PACKAGE…: builds the test programs of packages in .cache/tests, where the next run
# finds them: linking them takes a third of the CPU time of the unit tests. Packages whose programs
# have the same name are in different directories. The file programs has a line for each: the
# package, its directory, and the program.
build_programs() {
  local package dir program into=$PWD/.cache/tests began=$SECONDS
  printf '\n== building the test programs\n'
  go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}	{{.Dir}}{{end}}' "$@" |
    awk -F '\t' -v into="$into" '{
      n = split($1, part, "/")
      name = part[part[n] ~ /^v[2-9]$/ ? n - 1 : n] # as go test -c names it
      print $1 FS $2 FS into "/" 0 + same[name]++ "/" name ".test"
    }' >"$tmp/programs"
  mkdir -p "$into"
  for dir in $(awk -F / '{ print $(NF - 1) }' "$tmp/programs" | sort -u); do
    go test -c -ldflags='-s -w' -o "$into/$dir/" $(grep -F "	$into/$dir/" "$tmp/programs" | cut -f1) || return
  done
  find "$into" -name '*.test' | { grep -vxFf <(cut -f3 "$tmp/programs") || true; } | xargs -r -d '\n' rm -f
  printf '   took %d s\n' $((SECONDS - began))
}

# run_programs FLAGS… PACKAGE…: tests as go test does, with the built programs. Like those of go test,
# they can be interrupted, even if this script ignores that because it runs in the background.
run_programs() {
  local package flags=(-test.v -test.shuffle=on) at_once=1
  while [[ ${1:-} == -* ]]; do
    if [ "$1" = -p ]; then at_once=$2; else flags+=("-test.${1#-}=$2"); fi
    shift 2
  done
  mkdir -p "$tmp/running"
  for package; do
    grep "^$package	" "$tmp/programs" || true # it has no tests
  done | xargs -P "$at_once" -d '\n' -n 1 bash -c '
    tmp=$0 out=$(mktemp -p "$0/running") verdict="ok  " began=${EPOCHREALTIME/[.,]/}
    IFS=$'"'\\t'"' read -r package dir program <<<"${!#}"
    cd "$dir" && env --default-signal=INT,QUIT "$program" "${@:1:$#-1}" </dev/null >"$out" 2>&1 || verdict=FAIL
    ms=$(((${EPOCHREALTIME/[.,]/} - began) / 1000))
    printf "%s\t%s\t%d.%03ds\n" "$verdict" "$package" $((ms / 1000)) $((ms % 1000)) >>"$out"
    flock "$tmp/lock" cat "$out"
    rm "$out"
    [ "$verdict" != FAIL ]' "$tmp" "${flags[@]}"
}

# go_test ARGUMENTS…: links without the tables of debuggers, which takes a quarter less time.
go_test() { go test -v -shuffle=on -ldflags=-w "$@"; }

# run ARGUMENTS…: tests as $tester does, and continues after a failure.
failed=0
again=
tester=go_test
run() {
  local all took idle all2 took2 idle2 paused flags=() out=$tmp/run ticker result=0 began=$SECONDS
  printf '\n== go test %s\n' "$*"
  paused=$(wc -l <"$pauses")
  read -r all took idle < <(ticks)
  : >"$out"
  progress "$out" &
  ticker=$!
  $tester "$@" 2>&1 | tee "$out" | brief || result=1
  kill "$ticker" 2>/dev/null && wait "$ticker" 2>/dev/null || true
  cat "$out" >>"$log"
  read -r all2 took2 idle2 < <(ticks)
  printf '   took %d s, CPUs %d %% busy\n' $((SECONDS - began)) $((100 - (idle2 - idle) * 100 / (all2 - all + 1)))
  [ $result -ne 0 ] || return 0
  while [[ ${1:-} == -* ]]; do
    flags+=("$1")
    [[ $1 == *=* || $1 == -race ]] || { flags+=("$2") && shift; }
    shift
  done
  paused=$(tail -n +$((paused + 1)) "$pauses" | awk '{ ms += $1 } END { print ms + 0 }')
  once_more $(((took2 - took) * 100 / (all2 - all + 1))) "$paused" "$out" "${flags[@]}" || failed=1
}

# once_more PERCENT PAUSED OUTPUT FLAGS…: repeats the failed tests once if checks of times mean
# nothing, because CPU steal was high, or because the machine paused for PAUSED ms. It reports
# the repetition and the first failures. Otherwise it repeats nothing. It never repeats what slowness
# does not explain: a race, a panic, a timeout, an early fire, or a fire with two outcomes.
once_more() {
  local percent=$1 paused=$2 out=$3 pkg names why
  shift 3
  [ "$percent" -ge 5 ] || [ "$paused" -gt 0 ] || return 1
  why="$percent % CPU STEAL, MACHINE PAUSED FOR $paused ms"
  ! grep -qE '^(WARNING: DATA RACE|panic: |fatal error: )|\[(build|setup) failed\]|[0-9]+ (early|with two outcomes): ' "$out" || return 1
  while IFS=$'\t' read -r pkg names; do
    [ -n "$names" ] || return 1
    again+=$(printf '\n%s %s: %s' "$pkg" "$names" "$why")
    printf '\n!!! %s. REPEATING: %s %s !!!\n' "$why" "$pkg" "$names"
    go test -v "$@" -count=1 -run "^($names)\$" "$pkg" </dev/null 2>&1 | tee -a "$log" | brief || return 1
  done < <(awk -F '[\t ]+' '
    /^--- FAIL: / { names = names (names == "" ? "" : "|") $3 }
    /^(ok|FAIL|\?) *\t/ { if ($1 == "FAIL") print $2 "\t" names; names = "" }' "$out")
}

# simulate SEEDS [SKIPPED] starts the simulation beside the next tests, with lower priority. It
# runs in its own session, because many kernels share CPU time by session first. Each process uses
# one CPU: that takes an eighth less time than one process with all CPUs, because nothing within a
# simulation runs in parallel. The package's other tests run in one more process.
sim=$tmp/sim
simulate() {
  local seeds=$1 skipped=${2:-TestSeeds} each=5 from
  mkdir "$sim"
  printf '\n== %s, %d processes at once, beside the next tests\n' "$module/e2e/sim" "$(nproc)"
  go test -c -o "$sim/sim.test" "$module/e2e/sim" || { failed=1 && return; }
  {
    echo "other tests: -test.skip ^($skipped)\$ -seeds $seeds" # the longest, so it comes first
    for ((from = 1; from <= seeds; from += each)); do
      echo "seeds from $from: -test.run ^TestSeeds\$ -seed $from -seeds $each"
    done
  } | setsid nice -n 15 bash -c '
    { echo 15 >/proc/self/autogroup; } 2>/dev/null || true
    cd e2e/sim && exec xargs -P "$(nproc)" -d "\n" -I{} bash -c "$2" "$0" {} "$1" "$EPOCHSECONDS"' "$sim" "$module/e2e/sim" '
    dir=$0 what=${1%%:*} verdict=ok began=$SECONDS
    # The flags are separate words.
    GOMAXPROCS=1 "$dir/sim.test" -test.v -test.timeout 15m -test.shuffle on ${1#*: } >"$dir/$what.out" 2>&1 || verdict=FAIL
    printf "%s\t%s\t%ds, %s: done %ds after the first began\n" "$verdict" "$2" $((SECONDS - began)) "$what" $((EPOCHSECONDS - $3)) | tee -a "$dir/$what.out"
    [ $verdict = ok ] || touch "$dir/failed"' &
  simulation=$!
}

# simulated waits for the simulation's end and shows its failures.
simulated() {
  [ -n "$simulation" ] || return 0
  printf '\n== %s, waiting for the rest\n' "$module/e2e/sim"
  wait "$simulation" || failed=1
  simulation=
  cat "$sim"/*.out >>"$log"
  [ ! -e "$sim/failed" ] || { failed=1 && grep -l '^FAIL' "$sim"/*.out | while read -r out; do brief <"$out"; done; }
}

# inject_faults PACKAGE… starts the short fault run on real servers, beside the scenarios, in a
# process group of its own.
inject_faults() {
  printf '\n== %s, beside the next tests\n' "$module/e2e/chaos"
  set -m
  run_programs -timeout 25m "$@" >"$tmp/faults" 2>&1 &
  faults=$!
  set +m
}

# injected waits for the end of the fault run and shows its failures.
injected() {
  printf '\n== %s, waiting for the rest\n' "$module/e2e/chaos"
  wait "$faults" || failed=1
  faults=
  cat "$tmp/faults" >>"$log"
  brief <"$tmp/faults"
}

# SQLite is C translated to Go: the race detector makes it five times slower, and finds no bugs of
# ours there. So it is built without; the last -race wins. Our own happens-before edges come from
# our locks and those of database/sql, which are checked.
race=(-race '-gcflags=modernc.org/...=-race=false')

# The tests of packages with the detector that run without it.
plain='^(TestBackupOfTheSuite|TestBackupKeepsEveryValue|TestRestoreSurvivesSIGKILL|Test(MySQL|SQLite)SearchesInSmallSteps|TestPages|TestTopicsThatAreGone)$'

# The runs of the store's suite that repeat it with other settings, and a search of many rows.
repeated='^(TestBackupOfTheSuite|TestSQLitePreparesEveryInsert|Test(MySQL|SQLite)SearchesInSmallSteps)$'

: >"$pauses"
monitor_pauses >>"$pauses" &
monitor=$!

# The packages with the longest tests come first, so that none of them is alone at the end.
long=$(printf "$module/%s\n" libs/store/sqlstore e2e/browser libs/bus/pulsarbus services/cli services/executor services/wiring)
packages=$long$'\n'$(go list "$module/proto/..." "$module/libs/..." "$module/services/..." "$module/e2e/..." |
  grep -v -e /scenario -e '/sim$' -e /chaos -e '/kube$' -e '/compose$' | grep -vxF "$long")
if [ $# -gt 0 ]; then
  run "${race[@]}" -timeout 25m "$@"
elif [ $scope = quick ]; then
  tester=run_programs
  scenarios=$(go list "$module/e2e/scenario/...")
  chaos=$(go list "$module/e2e/chaos/...")
  build_programs $packages $scenarios $chaos
  # Packages that use real servers mostly wait for them, so twice as many run as there are CPUs.
  run -p $((2 * $(nproc))) -timeout 10m -skip "$repeated" $packages
  # The scenarios in one process mostly wait, and leave the CPUs to the faults. Those on real servers
  # would take as much time again, and overload two cores beside the faults.
  inject_faults $chaos
  simulate 5 'TestSeeds|TestMutants' # at a lower priority than the rest
  run -timeout 25m -parallel 8 -skip '/^real$|//^real$' $scenarios
  injected
  simulated
else
  run "${race[@]}" -timeout 25m -skip "$plain" $(grep -v -e '/libs/schedule$' -e '/libs/calendar$' -e '/libs/yamltext$' <<<"$packages")
  simulate 100 # at a lower priority than the rest
  run -timeout 25m "$module/libs/schedule" "$module/libs/calendar" "$module/libs/yamltext"
  run -timeout 25m -run "$plain" "$module/libs/store/sqlstore" "$module/services/cli" "$module/libs/bus/pulsarbus"
  run -timeout 25m "$module/e2e/scenario/..."
  simulated
  run -timeout 25m "$module/e2e/chaos/..."
fi

skips=$(grep -E '^ *--- SKIP' "$log" | awk '{ print $3 }' | sort -u || true)
if [ -n "$skips" ]; then
  printf '\n!!! %s TESTS WERE SKIPPED !!!\n' "$(wc -l <<<"$skips")"
  skipped <"$log"
  grep -hoE 'SKIPPED, UNTESTED: [^T].*' "$log" | sort -u || true
else
  printf '\nno test was skipped\n'
fi
[ -z "$again" ] || printf '\n!!! PASSED ONLY WHEN REPEATED:%s !!!\n' "$again"
if [ $failed -ne 0 ]; then
  printf '\nFAILED:\n'
  grep -E $'^(FAIL\t| *--- FAIL)' "$log" | sort | uniq || true
  exit 1
fi
left='make chaos (all faults), make isolation, make sim-mutants, make e2e-kube, make e2e-compose, make test-mysql, make test-galera, make test-versions'
[ $scope = all ] || left="the race detector, the oracles, 95 of 100 seeds, the simulation of deliberate bugs, scenarios on real servers, the store's suite with other settings, searches in many rows (make test-all has them), $left"
printf 'passed. Left out: %s\n' "$left"
