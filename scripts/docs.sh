#!/usr/bin/env bash
# Builds the site of the documents into dist/docs and checks its links: docs.sh
#
# It builds Hugo in its pinned version into bin/, and fetches the script that draws diagrams from
# npm, unless they are there. Without npm the diagrams stay text, which it says;
# CARILLON_CHECK_REQUIRE=npm makes that a failure.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/tools.sh hugo

# Mermaid's small edition has flowcharts and sequence diagrams. It is under the MIT License, which
# stands beside it on the site.
mermaid=@mermaid-js/tiny@11.17.2
mermaid_sha256=7a644017d37f93c8359790884e6b67fb1f747c78eb20475952404bd87190a3f8
mermaid_dir=bin/mermaid

# fetch_mermaid puts the script and its license into bin/mermaid. It runs nothing of the package.
fetch_mermaid() {
  [ "$(cat "$mermaid_dir/version" 2>/dev/null)" != "$mermaid $mermaid_sha256" ] || return 0
  local tmp
  tmp=$(mktemp -d)
  (cd "$tmp" && npm pack --silent "$mermaid" >/dev/null && tar xzf ./*.tgz) || { rm -rf "$tmp" && return 1; }
  echo "$mermaid_sha256  $tmp/package/dist/mermaid.tiny.js" | sha256sum --check --quiet || { rm -rf "$tmp" && return 1; }
  mkdir -p "$mermaid_dir"
  cp "$tmp/package/dist/mermaid.tiny.js" "$mermaid_dir/mermaid.js"
  cp "$tmp/package/LICENSE" "$mermaid_dir/mermaid.LICENSE.txt"
  rm -rf "$tmp"
  echo "$mermaid $mermaid_sha256" >"$mermaid_dir/version"
}

rm -rf dist/docs dist/site-static
mkdir -p dist/site-static
cp -r docs/images dist/site-static/
if command -v npm >/dev/null && fetch_mermaid; then
  cp "$mermaid_dir"/mermaid.* dist/site-static/
elif [[ ,${CARILLON_CHECK_REQUIRE:-}, == *,npm,* ]]; then
  echo "docs: the script that draws diagrams cannot be had from npm" >&2
  exit 1
else
  printf '\n!!! DIAGRAMS STAY TEXT: %s cannot be had from npm !!!\n\n' "$mermaid" >&2
fi
bin/hugo --quiet --panicOnWarning --noBuildLock --config docs/site/hugo.toml --destination "$PWD/dist/docs"
(cd deploy/tools && GOWORK=off go run ./cmd/links ../../dist/docs)
