#!/usr/bin/env bash
# Prints the path of a Python that has the stock Pulsar client: pulsar-client.sh.
#
# It creates the environment in $CARILLON_CACHE (default ~/.cache/carillon) if it is missing. It
# needs access to PyPI, and Python 3 with venv (Debian's package python3-venv, which it installs as
# root).
set -euo pipefail
version=3.13.0
protobuf=7.36.2
dir=${CARILLON_CACHE:-$HOME/.cache/carillon}/pulsar-client-$version
mkdir -p "$(dirname "$dir")"
exec 9>"$dir.lock" # only one process creates it; another waits and finds the result
flock 9
if [ ! -x "$dir/bin/python" ]; then
  rm -rf "$dir.new"
  if ! python3 -c 'import venv, ensurepip' 2>/dev/null && [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
    install=(env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends python3-venv)
    { "${install[@]}" || { apt-get update -q && "${install[@]}"; }; } >&2
  fi
  python3 -m venv "$dir.new" >&2
  "$dir.new/bin/python" -m pip install -q --disable-pip-version-check --only-binary :all: "pulsar-client==$version" "protobuf==$protobuf" >&2
  "$dir.new/bin/python" -c 'import pulsar, google.protobuf' >&2
  mv "$dir.new" "$dir" # its scripts contain the old path; python itself does not
fi
echo "$dir/bin/python"
