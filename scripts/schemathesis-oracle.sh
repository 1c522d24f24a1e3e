#!/usr/bin/env bash
# Installs schemathesis, which compares the API with its OpenAPI description, and prints its path:
# schemathesis-oracle.sh
#
# It is in $CARILLON_CACHE (default ~/.cache/carillon), under a name that depends on the requested
# versions. A second run does nothing. A run that dies halfway leaves nothing that a later run would
# take for complete.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
wanted=$root/services/allinone/oracle/requirements.txt
dir=${CARILLON_CACHE:-$HOME/.cache/carillon}/schemathesis-$(sha256sum "$wanted" | cut -c1-12)
if [ ! -f "$dir/ready" ]; then
  mkdir -p "$dir"
  exec 9>"$dir/lock"
  flock 9
  if [ ! -f "$dir/ready" ]; then # a process that waited finds the work done
    echo "schemathesis-oracle: installing into $dir" >&2
    rm -rf "$dir/python"
    python3 -m venv "$dir/python" >&2
    "$dir/python/bin/pip" install -q --disable-pip-version-check -r "$wanted" >&2
    touch "$dir/ready"
  fi
fi
echo "$dir/python/bin/schemathesis"
