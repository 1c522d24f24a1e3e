# Sourced by the engine's scripts: shared paths.
#
#   CACHE   the engine's programs, the base images of the stand-ins, and the engine's images; outside
#           the tree, so that new checkouts share them
#   STATE   the running engine; one per host at a time, because its networks have fixed addresses
#
# CARILLON_GRAFANA may name the directory of a Grafana release (bin/grafana, conf, public). It
# replaces Grafana's image, which has no other stand-in.
export CARILLON_CACHE=${CARILLON_CACHE:-$HOME/.cache/carillon}
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
ROOT=$(cd "$HERE/../.." && pwd)
CACHE=$CARILLON_CACHE/compose
ENGINE=$CACHE/engine
STATE=$CACHE/state
PATH=$ENGINE/bin:$PATH:/usr/sbin:/sbin
export DOCKER_HOST=unix://$STATE/docker.sock DOCKER_CONFIG=$ENGINE/config

# standins prints a hash of the stand-ins' inputs. They are rebuilt when it changes.
standins() {
  {
    cat "$HERE"/standins/* "$HERE"/files/main.go "$HERE/build.sh" "$ROOT/scripts/pulsar/pom.xml" && go version
    [ -z "${CARILLON_GRAFANA:-}" ] || cat "$CARILLON_GRAFANA/bin/grafana"
  } | sha256sum | cut -c1-12
}

# built: succeeds if the programs and the images exist.
built() { [ -x "$ENGINE/bin/docker" ] && [ -e "$CACHE/images-$(standins)" ]; }
