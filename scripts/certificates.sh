#!/usr/bin/env bash
# Makes the certificates of private servers and of tests that connect to them: certificates.sh DIR
# ADDRESS
#
# DIR gets ca.pem, server.pem and client.pem, and their keys beside them as .key. token.key is the
# secret that signs tokens for Pulsar. A second run does nothing.
set -euo pipefail
[ $# -eq 2 ] || { echo "usage: $0 DIR ADDRESS" >&2 && exit 2; }
dir=$1 address=$2
[ ! -d "$dir" ] || exit 0
rm -rf "$dir.new"
mkdir -p "$dir.new"
cd "$dir.new"

# make NAME EXTENSION ARGUMENT…: makes a key and its certificate.
make() {
  openssl req -x509 -days 3650 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj "/CN=carillon-test-$1" \
    -addext "$2" -keyout "$1.key" -out "$1.pem" "${@:3}" 2>openssl.log || { cat openssl.log >&2 && exit 1; }
}
make ca basicConstraints=critical,CA:TRUE
for name in server client; do
  make "$name" "subjectAltName=IP:127.0.0.1,IP:$address,DNS:localhost" -CA ca.pem -CAkey ca.key -addext basicConstraints=CA:FALSE
done
openssl rand -out token.key 32
cd - >/dev/null
mv "$dir.new" "$dir"
