#!/usr/bin/env bash
# Installs a Docker engine from Debian packages, and builds stand-ins for the images that compose
# and the Dockerfile name: build.sh.
#
# It asks no image registry and installs nothing on the host. It needs root. A cold build takes 5 to
# 10 minutes, and 8 GB in $CARILLON_CACHE/compose, builds included.
#
# The engine is Debian 13's. Its programs run on Debian 12, except runc. The stand-ins are built
# from Debian 12. MySQL, and a Prometheus of compose's version, exist in unstable only, so the MySQL
# version varies. Debian has no Grafana: see CARILLON_GRAFANA in paths.sh.
set -euo pipefail
. "$(dirname "$0")/paths.sh"
[ "$(id -u)" = 0 ] || { echo "compose/build: not root" >&2 && exit 1; }
began=$SECONDS
say() { echo "compose/build: $* after $((SECONDS - began)) s"; }
mirror=http://deb.debian.org/debian
mkdir -p "$CACHE"
exec 9>"$CACHE/lock" # only one process builds; another waits and finds the result
flock 9
built && echo "compose/build: ready in $CACHE" && exit
[ ! -e "$STATE/pid" ] || { echo "compose/build: an engine is up: run scripts/compose/down.sh" >&2 && exit 1; }
work=$CACHE/new
rm -rf "$work"
trap '"$HERE/down.sh"; rm -rf "$work"' EXIT
mkdir -p "$work"

# packages SUITE DIR PACKAGE…: unpacks the packages into DIR, with its own package lists.
packages() {
  local suite=$1 dir=$2 own=$work/apt-$1 file
  shift 2
  mkdir -p "$own"/{lists/partial,cache/archives/partial,debs} "$dir"
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $suite main" >"$own/sources.list"
  local apt=(apt-get -q -o "Dir::Etc::SourceList=$own/sources.list" -o Dir::Etc::SourceParts=/dev/null -o "Dir::State::Lists=$own/lists"
    -o "Dir::Cache=$own/cache" -o APT::Sandbox::User=root -o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false)
  "${apt[@]}" update >/dev/null
  (cd "$own/debs" && "${apt[@]}" download "$@" >/dev/null)
  for file in "$own"/debs/*.deb; do dpkg-deb -x "$file" "$dir"; done
  rm -rf "$own"
}

engine() {
  [ -x "$ENGINE/bin/docker" ] && return
  packages trixie "$work/engine" docker.io docker-cli docker-buildx docker-compose containerd
  rm -f "$work"/engine/usr/*/runc
  packages bookworm "$work/engine" runc debootstrap
  mkdir -p "$work/engine/bin" "$work/engine/config/cli-plugins"
  find "$work"/engine/usr/bin "$work"/engine/usr/sbin -type f -exec mv -t "$work/engine/bin" {} +
  find "$work/engine/usr" -path '*/cli-plugins/*' -type f -exec mv -t "$work/engine/config/cli-plugins" {} +
  mv "$work/engine/usr/share/debootstrap" "$work/engine/debootstrap"
  (cd "$HERE/files" && CGO_ENABLED=0 go build -trimpath -o "$work/engine/bin/files" main.go)
  rm -rf "$work/engine/usr" "$work/engine/etc" "$work/engine/lib" "$ENGINE"
  mv "$work/engine" "$ENGINE"
  say "engine unpacked"
}

# debian SUITE PACKAGE…: builds an image of a minimal Debian with the packages.
debian() {
  local suite=$1 packages name
  shift
  packages=$(IFS=, && echo "$*")
  name=carillon.local/$suite:$(echo "$packages" | sha256sum | cut -c1-12)
  if ! docker image inspect "$name" >/dev/null 2>&1; then
    # In its own namespaces, so that its mounts and the services that packages start end with it.
    DEBOOTSTRAP_DIR=$ENGINE/debootstrap nice unshare --mount --pid --fork --kill-child \
      debootstrap --variant=minbase --include="$packages" "$suite" "$work/$suite" "$mirror" >"$work/$suite.log" || { tail -5 "$work/$suite.log" >&2 && return 1; }
    tar -C "$work/$suite" --exclude='./var/cache/apt/archives/*.deb' --exclude='./var/lib/apt/lists/*' --exclude='./proc/*' --exclude='./sys/*' -c . |
      docker import - "$name" >/dev/null
    rm -rf "${work:?}/$suite"
    say "Debian $suite made"
  fi
  docker tag "$name" "carillon.local/$suite"
}

# images builds the stand-ins in the engine's own image store.
images() {
  local context=$work/context target name
  mkdir -p "$context"/{go,pulsar/conf,grafana}
  cp "$HERE"/standins/* "$ENGINE/bin/files" "$context/"
  tar -C "$(go env GOROOT)" --exclude=./test --exclude=./doc --exclude=./api -c . | tar -C "$context/go" -x
  cp -r "$CARILLON_CACHE/pulsar-4.0.7/lib" "$context/pulsar/lib"
  cp "$ROOT/scripts/pulsar/log4j2.properties" "$HERE/standins/standalone.conf" "$context/pulsar/conf/"
  [ -z "${CARILLON_GRAFANA:-}" ] || cp -r "$CARILLON_GRAFANA"/{bin,conf,public} "$context/grafana/"
  while read -r target name; do
    docker build --quiet --target "$target" -t "$name" "$context" >/dev/null
    say "stand-in for $name made"
  done <<-LIST
	golang golang:1.26-bookworm
	redis redis:7.4
	mysql mysql:8.4
	pulsar apachepulsar/pulsar:4.0.7
	prometheus prom/prometheus:v3.5.0
	grafana grafana/grafana:12.1.1
	LIST
  rm -f "$CACHE"/images-*
  touch "$CACHE/images-$(standins)"
}

engine
"$ROOT/scripts/install-servers.sh" pulsar >/dev/null
"$HERE/up.sh"
debian bookworm ca-certificates curl python3-minimal redis-server openjdk-17-jre-headless
debian sid ca-certificates wget prometheus mysql-server mysql-client
images
say "ready in $CACHE"
