#!/usr/bin/env bash
# Runs all tests, and says loudly what was skipped: test.sh [PACKAGE…]. It uses the servers that the environment names.
#
# Those on Kubernetes run by make e2e-kube, those of the compose file by make e2e-compose. Unit tests and suites run with the race detector. What it would make many times slower for nothing runs after them without it: the
# arithmetic of schedules, which starts no goroutine; the simulation; and the end-to-end stories, which start programs of their own and look at times. Of go test's output it shows the line of each package, everything about a failure, and each skip.
set -euo pipefail
cd "$(dirname "$0")/.."
module=github.com/carillon-timer/carillon
log=$(mktemp)
trap 'rm -f "$log"' EXIT
export CARILLON_BIN=${CARILLON_BIN:-$PWD/bin}
# One that cannot be had is said by the test that skips, or fails where CARILLON_TEST_REQUIRE names python.
CARILLON_TEST_PULSAR_CLIENT=${CARILLON_TEST_PULSAR_CLIENT:-$(scripts/pulsar-client.sh || true)}
export CARILLON_TEST_PULSAR_CLIENT

# Without them their test skips, or fails where CARILLON_TEST_REQUIRE names oracles.
if oracles=$(scripts/oracles.sh </dev/null); then
  export CARILLON_TEST_ORACLES=$oracles
else
  printf '\n!!! NO ORACLES: agreement of schedules with other implementations is NOT TESTED !!!\n\n' >&2
fi
if webhooks=${CARILLON_TEST_WEBHOOKS:-$(scripts/webhooks-oracle.sh </dev/null)}; then
  export CARILLON_TEST_WEBHOOKS=$webhooks
else
  printf '\n!!! NO ORACLE OF WEBHOOKS: that others verify our signatures is NOT TESTED !!!\n\n' >&2
fi

# brief: the output of a package is held until its last line tells whether it is wanted.
brief() {
  awk '
    /^=== (RUN|PAUSE|CONT)/ || /^ *--- PASS/ { next }
    /^(ok  |\?   |FAIL\t|--- FAIL.*build)/ || /^FAIL$/ && held == "" {
      if ($0 ~ /^FAIL/) printf "%s", held
      held = ""; print; fflush(); next
    }
    { held = held $0 "\n" }
    END { printf "%s", held }'
}

# run ARGUMENTS…: go test, whatever it finds.
failed=0
run() {
  printf '\n== go test %s\n' "$*"
  go test -v -shuffle=on "$@" 2>&1 | tee -a "$log" | brief || failed=1
}

# SQLite is C translated to Go: watched by the race detector it takes five times as long, and whatever is found in it is none of ours. It stays
# unwatched; the last -race wins. The happens-before of our own code comes from our locks and those of database/sql, which are watched.
race=(-race '-gcflags=modernc.org/...=-race=false')

if [ $# -gt 0 ]; then
  run "${race[@]}" -timeout 15m "$@"
else
  run "${race[@]}" -timeout 15m $(go list "$module/proto/..." "$module/libs/..." "$module/services/..." "$module/e2e/..." |
    grep -v -e '/libs/schedule$' -e /scenario -e '/sim$' -e /chaos -e '/kube$' -e '/compose$')
  run -timeout 15m "$module/libs/schedule" "$module/e2e/sim"
  run -timeout 15m "$module/e2e/scenario/..."
  run -timeout 15m "$module/e2e/chaos/..."
fi

skips=$(grep -E '^ *--- SKIP' "$log" | sort | uniq || true)
if [ -n "$skips" ]; then
  printf '\n!!! %s TESTS WERE SKIPPED !!!\n%s\n' "$(wc -l <<<"$skips")" "$skips"
  grep -hoE '(!!! )?SKIPPED, UNTESTED:.*' "$log" | sort | uniq || true
else
  printf '\nno test was skipped\n'
fi
if [ $failed -ne 0 ]; then
  printf '\nFAILED:\n'
  grep -E $'^(FAIL\t| *--- FAIL)' "$log" | sort | uniq || true
  exit 1
fi
echo "all tests passed"
