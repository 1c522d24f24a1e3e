#!/usr/bin/env bash
# Creates the keys of a deployment on this machine: keys.sh FILE
#
# It adds CARILLON_ADMIN_KEY and CARILLON_ENCRYPTION_KEYS to FILE where they are missing, one
# NAME=value per line. Only the owner of FILE can read it. Existing keys stay as they are: a
# deployment cannot read its stored secrets without its encryption key. bin/carillon creates the
# keys, or Go if it is not built, or an image that Docker builds.
set -euo pipefail
[ $# -eq 1 ] || { sed -n 2p "$0" >&2 && exit 2; }
file=$(realpath -m "$1")
cd "$(dirname "$0")/.."

carillon() {
  if [ -x bin/carillon ]; then
    bin/carillon "$@"
  elif command -v go >/dev/null; then
    go run ./services/cli/cmd/carillon "$@"
  else
    docker build -q -t carillon -f deploy/Dockerfile --build-arg SERVICE=carillon . >/dev/null
    docker run --rm carillon "$@"
  fi
}

# add NAME COMMAND: writes the whole line or nothing.
add() {
  local key
  grep -q "^$1=." "$file" && return
  key=$(carillon "$2")
  [ -z "$(tail -c1 "$file")" ] || echo >>"$file" # ends a last line that an editor left open
  printf '%s=%s\n' "$1" "$key" >>"$file"
  echo "keys: $1 is new in $file" >&2
}

umask 077
touch "$file"
chmod 600 "$file"
add CARILLON_ADMIN_KEY admin-key
add CARILLON_ENCRYPTION_KEYS encryption-key
