# Sourced by the engine's scripts: where what they share is.
#
#   CACHE   the engine's programs, the two Debians that the stand-ins start from, and the engine's images: outside the tree, a new checkout need not
#           fetch them again
#   STATE   the running engine; one at a time per host, as its networks have fixed addresses
#
# CARILLON_GRAFANA may name a Grafana (bin/grafana, conf, public: what its release's archive has): it stands in for Grafana's image, where nothing
# else can.
export CARILLON_CACHE=${CARILLON_CACHE:-$HOME/.cache/carillon}
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
ROOT=$(cd "$HERE/../.." && pwd)
CACHE=$CARILLON_CACHE/compose
ENGINE=$CACHE/engine
STATE=$CACHE/state
PATH=$ENGINE/bin:$PATH:/usr/sbin:/sbin
export DOCKER_HOST=unix://$STATE/docker.sock DOCKER_CONFIG=$ENGINE/config

# standins prints what the stand-ins are made of: others have to be made when it changes.
standins() {
  {
    cat "$HERE"/standins/* "$HERE"/files/main.go "$HERE/build.sh" "$ROOT/scripts/pulsar/pom.xml" && go version
    [ -z "${CARILLON_GRAFANA:-}" ] || cat "$CARILLON_GRAFANA/bin/grafana"
  } | sha256sum | cut -c1-12
}

# built: succeeds when the programs and the images are there.
built() { [ -x "$ENGINE/bin/docker" ] && [ -e "$CACHE/images-$(standins)" ]; }
