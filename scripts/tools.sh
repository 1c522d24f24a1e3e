#!/usr/bin/env bash
# Builds the development tools in their pinned versions into bin/, unless they are there: tools.sh [NAME…]
#
# Without names it builds those that make lint and make generate need.
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir -p bin
names=${*:-protoc-gen-go protoc-gen-go-grpc buf golangci-lint}

# tool NAME PACKAGE VERSION: builds the tool into bin/, if it is asked for. A file beside it, written
# last, names its version.
tool() {
  local stamp=bin/.$1.version wanted="$3 $(go env GOVERSION)"
  [[ " $names " == *" $1 "* ]] || return 0
  if [ -x "bin/$1" ] && [ "$(cat "$stamp" 2>/dev/null)" = "$wanted" ]; then
    return
  fi
  echo "building $1 $3"
  GOBIN=$PWD/bin GOWORK=off GOFLAGS=-mod=mod CGO_ENABLED=0 go install "$2@$3"
  echo "$wanted" >"$stamp"
}

tool protoc-gen-go google.golang.org/protobuf/cmd/protoc-gen-go v1.36.12
tool protoc-gen-go-grpc google.golang.org/grpc/cmd/protoc-gen-go-grpc v1.6.2
tool buf github.com/bufbuild/buf/cmd/buf v1.70.0
tool golangci-lint github.com/golangci/golangci-lint/v2/cmd/golangci-lint v2.15.0
tool hugo github.com/gohugoio/hugo v0.165.0 # the newest that Go 1.26 builds
