#!/usr/bin/env bash
# Copies the time zone database of the Go installation, with its version, into libs/zone/tzdata,
# where the programs embed it: tzdata.sh
#
# It never goes back: an older Go leaves a newer copy unchanged, so that everybody generates the
# same files.
set -euo pipefail
cd "$(dirname "$0")/.."
from=$(go env GOROOT)/lib/time
to=libs/zone/tzdata
[ -f "$from/zoneinfo.zip" ] && [ -f "$from/update.bash" ] || {
  echo "tzdata: $from: expected zoneinfo.zip and update.bash, found: $(ls "$from" 2>&1 | tr '\n' ' '): use Go from go.dev/dl" >&2
  exit 1
}
version=$(sed -n 's/^DATA=//p' "$from/update.bash")
[[ $version =~ ^[0-9]{4}[a-z]+$ ]] || {
  echo "tzdata: $from/update.bash: expected a line DATA=2025c or the like, found \"$version\"" >&2
  exit 1
}
have=$(cat "$to/VERSION" 2>/dev/null || true)
if [[ $version > $have ]]; then
  mkdir -p "$to"
  cp "$from/zoneinfo.zip" "$to/zoneinfo.zip"
  chmod 644 "$to/zoneinfo.zip"
  echo "$version" >"$to/VERSION"
  echo "tzdata: $version, was ${have:-none}"
fi
