#!/usr/bin/env bash
# Checks that deploy/, helm/ and the documents speak of what the code has: check.sh. It needs no server and changes nothing.
#
# Metrics in alerts, dashboard and documents, and settings in chart, compose file and documents, must be in the Go sources; every
# setting and every alert must be documented, and none besides; what is generated must be current; the documents' links must lead
# somewhere. With helm and promtool in bin/ or PATH the chart is linted and rendered, and the
# alerts are checked and tested; without them that is left out, loudly, or fails where CARILLON_CHECK_REQUIRE names them.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/kube/paths.sh # uses the helm that was built for the cluster
PATH=$PWD/bin:$PATH
failed=0
complain() {
  echo "deploy/check: $*" >&2
  failed=1
}

# absent WHAT HAVE WANT…: complains of each line of WANT that is not in HAVE.
absent() {
  local line
  while IFS= read -r line; do
    [ -z "$line" ] || complain "$1: $line"
  done < <(comm -13 <(sort -u <<<"$2") <(sort -u <<<"$3"))
}

# tool NAME: succeeds if the program exists.
tool() {
  command -v "$1" >/dev/null && return
  if [[ ,${CARILLON_CHECK_REQUIRE:-}, == *",$1,"* ]]; then
    complain "$1 is not there"
  else
    echo "deploy/check: NOT CHECKED with $1: it is neither in bin/ nor in PATH" >&2
  fi
  return 1
}

# The sources on one line, because a formatter may break a call anywhere.
sources=$(find libs services -name '*.go' ! -name '*_test.go' -exec cat {} + | tr -s '\n\t' ' ')

# Metrics: full names, and names with a separate namespace. The series of a histogram have a suffix.
have=$(grep -oE '"carillon_[a-z0-9_]+"' <<<"$sources" | tr -d '"'
  grep -oE 'Namespace: *Namespace, Name: *"[a-z0-9_]+"' <<<"$sources" | sed -E 's/.*"(.*)"/carillon_\1/')
[ "$(wc -l <<<"$have")" -gt 20 ] || complain "hardly a metric found in the Go sources: is the search out of date?"
want=$(cat deploy/prometheus/*.yml deploy/grafana/*.json README.md docs/*.md docs/*/*.md | grep -oE '\bcarillon_[a-z0-9_]+' | sed -E 's/_(bucket|sum|count)$//')
absent "metric that no Go source registers" "$have" "$want"
documented=$(grep -oE '^\| `carillon_[a-z0-9_]+`' docs/metrics.md | tr -d '|` ')
absent "metric without a row in docs/metrics.md: make generate" "$documented" \
  "$(grep -oE 'Name: *"carillon_[a-z0-9_]+", Help:' <<<"$sources" | grep -oE 'carillon_\w+')"

# Settings: the names that libs/config registers, as environment variables.
config=$(find libs/config -name '*.go' ! -name '*_test.go' -exec cat {} + | tr -s '\n\t' ' ')
have=$(grep -oE '\bs\.(String|Secret|DSN|List|Rules|Bool|Tri|Int|Duration)\( *&[A-Za-z0-9.]+, "[a-z0-9-]+"' <<<"$config" |
  sed -E 's/.*"(.*)"/CARILLON_\1/' | tr 'a-z-' 'A-Z_')
# Of compose's own: the port of the API on this machine. libs/config tests the documents' variables.
want=$(grep -rhoE '\bCARILLON_[A-Z0-9_]*[A-Z0-9]\b' deploy/Dockerfile deploy/compose.yaml helm/carillon | grep -vx CARILLON_PORT)
absent "setting that no Go source registers" "$have" "$want"
documented=$(grep -oE '^\| `[^|]*\|' docs/settings.md | grep -oE '`[a-z0-9-]+`' | tr -d '`' | sed 's/^/CARILLON_/' | tr 'a-z-' 'A-Z_')
absent "setting without a row in docs/settings.md" "$documented" "$have"
absent "row in docs/settings.md without a setting" "$have" "$documented"

# Alerts and their sections in the documents.
alerts=$(sed -nE 's/^ *- alert: *(\w+)$/\1/p' deploy/prometheus/alerts.yml)
places=$(sed -nE 's/^#+ (Carillon\w+)$/\1/p' docs/monitoring.md)
absent "alert without a section in docs/monitoring.md" "$places" "$alerts"
absent "section in docs/monitoring.md without an alert" "$alerts" "$places"

tested=$(grep -ohE 'alertname: \w+' deploy/prometheus/tests/*.yml | sed 's/.* //')
absent "alert without a test in deploy/prometheus/tests" "$tested" "$alerts"

# Executors stop calling at maxUnrecorded results, so an alert above it could not fire.
most=$(grep -oE 'maxUnrecorded = [0-9]+' <<<"$sources" | grep -oE '[0-9]+$' || true)
limit=$(grep -oE 'carillon_executor_unrecorded > [0-9]+' deploy/prometheus/alerts.yml | grep -oE '[0-9]+$' || true)
[ "${limit:-0}" -lt "${most:-0}" ] || complain "CarillonUnrecorded fires above ${limit:-?} results, and executors stop at ${most:-?}"

# An aggregate over all namespaces would let a healthy deployment hide another one.
said=$(grep -oE '\b(min|max|avg|sum|count|group)( by \([^)]*\))? ?\(' deploy/prometheus/alerts.yml | grep -v ' by (namespace[,)]' || true)
[ -z "$said" ] || complain "aggregate of an alert that is not by namespace: $said"

# A panel without the namespace would show other deployments too.
said=$(grep '"expr": ' deploy/grafana/carillon.json | grep -oE '\b((carillon|process)_[a-z0-9_]+|up\{)[^a-z0-9_]?.{0,11}' | grep -vF '{namespace=~' || true)
[ -z "$said" ] || complain "queries of the dashboard that do not choose by namespace: $said"

# A healthy deployment would hide a sick one there too, where the least is the worst or all processes show the same.
said=$(grep '"expr": ' deploy/grafana/carillon.json | grep -oE '\b(min( by \([^)]*\))? ?\(|max( by \([^)]*\))? ?\(carillon_sessions)[^(]{0,30}' | grep -vE '^(min|max)( by \(namespace[,)]|\((min|max) by \(namespace[,)])|^min\(max by ' || true)
[ -z "$said" ] || complain "queries of the dashboard that are not by namespace first: $said"

# The chart's copies, and its README.
for copy in prometheus/alerts.yml grafana/carillon.json; do
  cmp -s "deploy/$copy" "helm/carillon/files/$(basename "$copy")" || complain "helm/carillon/files/$(basename "$copy") is no copy of deploy/$copy: make generate"
done
if tool go; then
  (cd deploy/tools && GOWORK=off go run ./cmd/docs ../..) || complain "the documents have faults"
  (cd deploy/tools && GOWORK=off go run ./cmd/values -check ../../helm/carillon && GOWORK=off go test ./... >/dev/null) || complain "the tools of deploy find fault"
fi

if tool promtool; then
  promtool check config --lint=none deploy/prometheus/prometheus.yml >/dev/null || complain "promtool finds fault with prometheus.yml"
  promtool check rules --lint=all --lint-fatal deploy/prometheus/alerts.yml >/dev/null || complain "promtool finds fault with the alerts"
  promtool test rules deploy/prometheus/tests/*.yml >/dev/null || complain "the alerts fail their tests"
fi

if tool helm; then
  . deploy/check-chart.sh
fi

[ $failed = 0 ] && echo "deploy/check: ok"
exit $failed
