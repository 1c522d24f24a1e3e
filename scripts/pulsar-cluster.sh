#!/usr/bin/env bash
# Starts or stops a private Pulsar cluster: pulsar-cluster.sh up|down DIR [NODE…]
#
# It has three ZooKeepers, three bookies, three brokers and a proxy, each a process of its own. NODE
# is one of them, such as pulsar-cluster-bookie-2. Without NODE, up starts those that do not run.
# The data of each is in DIR/NODE, its pid in DIR/NODE.pid. CARILLON_TEST_PULSAR_VERSION names another
# version that install-servers.sh has downloaded. The proxy keeps its own.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/process.sh"
arguments "$0" "$@"
cache=${CARILLON_CACHE:-$HOME/.cache/carillon}/pulsar-4.0.7
classpath="${CARILLON_CACHE:-$HOME/.cache/carillon}/pulsar-${CARILLON_TEST_PULSAR_VERSION:-4.0.7}/lib/*"
. "$here/pulsar/java.sh"

name=pulsar-cluster
zookeepers=("$name"-zookeeper-{1,2,3})
bookies=("$name"-bookie-{1,2,3})
brokers=("$name"-broker-{1,2,3})
proxy=$name-proxy
nodes=("${zookeepers[@]}" "${bookies[@]}" "${brokers[@]}" "$proxy")

# list SEPARATOR PORT-SUFFIX NODE…: prints the addresses of nodes.
list() {
  local separator=$1 suffix=$2 out= node
  shift 2
  for node in "$@"; do out+=$separator$ADDR:$(fixed "$node$suffix"); done
  echo "${out#"$separator"}"
}

# jvm NODE HEAP_MB DIRECT_MB CLASS ARGUMENT…: starts a Java process in its data directory, with the
# jars of $classpath.
jvm() {
  local node=$1 heap=$2 direct=$3
  shift 3
  (cd "$DIR/$node" && spawn "$node" java "${java[@]}" -Xms32m "-Xmx${heap}m" "-XX:MaxDirectMemorySize=${direct}m" \
    -Dzookeeper.admin.enableServer=false -Dzookeeper.4lw.commands.whitelist=srvr \
    -cp "$classpath" "$@")
}

zookeeper() {
  local node=$1 other
  {
    printf 'tickTime=1000\ninitLimit=20\nsyncLimit=5\ndataDir=%s\nclientPortAddress=%s\nclientPort=%s\n' "$DIR/$node" "$ADDR" "$(fixed "$node")"
    for other in "${zookeepers[@]}"; do
      printf 'server.%s=%s:%s:%s\n' "${other##*-}" "$ADDR" "$(fixed "$other-peer")" "$(fixed "$other-election")"
    done
  } >"$DIR/$node/zoo.cfg"
  echo "${node##*-}" >"$DIR/$node/myid"
  jvm "$node" 96 32 org.apache.zookeeper.server.quorum.QuorumPeerMain "$DIR/$node/zoo.cfg"
}

bookie() {
  local node=$1
  {
    cat "$here/pulsar/bookie.conf"
    printf '\nbookiePort=%s\nadvertisedAddress=%s\nmetadataServiceUri=zk+null://%s/ledgers\n' "$(fixed "$node")" "$ADDR" "$(list ';' '' "${zookeepers[@]}")"
    printf 'journalDirectories=%s/journal\nledgerDirectories=%s/ledgers\n' "$DIR/$node" "$DIR/$node"
  } >"$DIR/$node/bookie.conf"
  jvm "$node" 160 160 org.apache.bookkeeper.server.Main --conf "$DIR/$node/bookie.conf"
}

broker() {
  local node=$1
  {
    cat "$here/pulsar/broker.conf"
    printf '\nmetadataStoreUrl=zk:%s\nconfigurationMetadataStoreUrl=zk:%s\n' "$ensemble" "$ensemble"
    printf 'brokerServicePort=%s\nwebServicePort=%s\nbindAddress=%s\nadvertisedAddress=%s\n' "$(fixed "$node")" "$(fixed "$node-web")" "$ADDR" "$ADDR"
  } >"$DIR/$node/broker.conf"
  jvm "$node" 320 256 org.apache.pulsar.PulsarBrokerStarter --broker-conf "$DIR/$node/broker.conf"
}

proxy() {
  local node=$1 classpath="$cache/lib/*:$cache/proxy/*"
  {
    cat "$here/pulsar/proxy.conf"
    printf '\nmetadataStoreUrl=zk:%s\nconfigurationMetadataStoreUrl=zk:%s\n' "$ensemble" "$ensemble"
    printf 'servicePort=%s\nwebServicePort=%s\nbindAddress=%s\nadvertisedAddress=%s\n' "$(fixed "$node")" "$(fixed "$node-web")" "$ADDR" "$ADDR"
  } >"$DIR/$node/proxy.conf"
  jvm "$node" 128 128 org.apache.pulsar.proxy.server.ProxyServiceStarter --config "$DIR/$node/proxy.conf"
}

# ready NODE: succeeds if the node serves. A ZooKeeper serves as a member of a quorum.
ready() {
  case $1 in
    *-zookeeper-*) (exec 3<>"/dev/tcp/$ADDR/$(fixed "$1")" && echo srvr >&3 && timeout 2 cat <&3) 2>/dev/null | grep -q '^Mode:' ;;
    *-bookie-*) listening "$(fixed "$1")" ;;
    *-broker-*) curl -fsS -m 10 "http://$ADDR:$(fixed "$1-web")/admin/v2/brokers/health" ;;
    *) curl -fsS -m 10 "http://$ADDR:$(fixed "$1-web")/admin/v2/clusters" ;;
  esac
}

# begin KIND NODE…: starts the nodes that do not run and are wanted, and waits until they serve.
begin() {
  local kind=$1 node started=()
  shift
  for node in "$@"; do
    [[ " ${wanted[*]} " == *" $node "* ]] && ! alive "$node" || continue
    mkdir -p "$DIR/$node"
    "$kind" "$node"
    started+=("$node")
  done
  for node in ${started[@]+"${started[@]}"}; do
    healthy "$node" 300 ready "$node" || { failure=$node && return 1; }
  done
}

# metadata writes into ZooKeeper what a new cluster needs, once.
metadata() {
  [ ! -e "$DIR/$name.initialized" ] || return 0
  (cd "$DIR" && java "${java[@]}" -Xmx128m -cp "$classpath" org.apache.pulsar.PulsarClusterMetadataSetup \
    --cluster carillon --metadata-store "zk:$ensemble" --configuration-metadata-store "zk:$ensemble" \
    --web-service-url "http://$(list , -web "${brokers[@]}")" --broker-service-url "pulsar://$(list , '' "${brokers[@]}")" \
    >>"$DIR/$name-metadata.log" 2>&1) || { failure=$name-metadata && return 1; }
  touch "$DIR/$name.initialized"
}

start() {
  ensemble=$(list , '' "${zookeepers[@]}")
  begin zookeeper "${zookeepers[@]}" && metadata && begin bookie "${bookies[@]}" && begin broker "${brokers[@]}" && begin proxy "$proxy"
}

wanted=("${@:3}")
[ ${#wanted[@]} -gt 0 ] || wanted=("${nodes[@]}")
case $1 in
  up)
    [ -d "${classpath%/*}" ] && [ -d "$cache/proxy" ] || { echo "$name: no jars in $cache: run scripts/install-servers.sh pulsar-cluster" >&2 && exit 1; }
    start || { echo "$failure does not start; the end of $DIR/$failure.log:" >&2 && tail -n 20 "$DIR/$failure.log" >&2 && exit 1; }
    export_env "$name" "TEST_PULSAR_CLUSTER_URL=pulsar://$(list , '' "${brokers[@]}")" \
      "TEST_PULSAR_CLUSTER_ADMIN_URL=http://$(list , -web "${brokers[@]}")" \
      "TEST_PULSAR_PROXY_URL=pulsar://$ADDR:$(fixed "$proxy")" "TEST_PULSAR_PROXY_ADMIN_URL=http://$ADDR:$(fixed "$proxy-web")"
    ;;
  down)
    # In the reverse order, because a broker that ends writes to bookies and ZooKeepers.
    for ((i = ${#nodes[@]} - 1; i >= 0; i--)); do
      [[ " ${wanted[*]} " != *" ${nodes[i]} "* ]] || stop "${nodes[i]}"
    done
    [ $# -gt 2 ] || rm -f "$DIR/$name.env"
    ;;
esac
