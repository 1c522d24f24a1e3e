#!/usr/bin/env bash
# Installs the certified OpenID provider that the sign-in is tested with, and prints its directory:
# oidc-oracle.sh. It needs Node.
#
# It is in $CARILLON_CACHE (default ~/.cache/carillon), under a name that depends on the requested
# versions. A second run does nothing. A run that dies halfway leaves nothing that a later run would
# take for complete.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
from=$root/services/api/oracle
dir=${CARILLON_CACHE:-$HOME/.cache/carillon}/oidc-$(sha256sum "$from/package-lock.json" | cut -c1-12)
if [ ! -f "$dir/ready" ]; then
  mkdir -p "$dir"
  exec 9>"$dir/lock"
  flock 9
  if [ ! -f "$dir/ready" ]; then # a process that waited finds the work done
    echo "oidc-oracle: installing into $dir" >&2
    rm -rf "$dir/node_modules"
    cp "$from/package.json" "$from/package-lock.json" "$dir"
    npm ci --prefix "$dir" --ignore-scripts --no-audit --no-fund >&2
    touch "$dir/ready"
  fi
fi
echo "$dir"
