#!/usr/bin/env bash
# Makes the keys of a deployment on this machine: keys.sh FILE
#
# It adds CARILLON_ADMIN_KEY and CARILLON_ENCRYPTION_KEYS to FILE, one NAME=value a line, where they are missing, and lets nobody but its owner read it. What is
# there stays as it is: without its encryption key a deployment cannot read the secrets that it has stored. Keys are made by bin/carillon where that
# was built, else by Go, else by an image that Docker builds.
set -euo pipefail
[ $# -eq 1 ] || { sed -n 2p "$0" >&2 && exit 2; }
file=$(realpath -m "$1")
cd "$(dirname "$0")/.."

carillon() {
  if [ -x bin/carillon ]; then
    bin/carillon "$@"
  elif command -v go >/dev/null; then
    go run ./services/allinone/cmd/carillon "$@"
  else
    docker build -q -t carillon -f deploy/Dockerfile --build-arg SERVICE=carillon . >/dev/null
    docker run --rm carillon "$@"
  fi
}

# add NAME COMMAND: a line is written at once, or not at all.
add() {
  local key
  grep -q "^$1=." "$file" && return
  key=$(carillon "$2")
  printf '%s=%s\n' "$1" "$key" >>"$file"
  echo "keys: $1 is new in $file" >&2
}

umask 077
touch "$file"
chmod 600 "$file"
add CARILLON_ADMIN_KEY admin-key
add CARILLON_ENCRYPTION_KEYS encryption-key
