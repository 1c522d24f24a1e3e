#!/usr/bin/env bash
# Starts or stops a private Pulsar standalone with production durability: pulsar.sh up|down DIR
#
# Its data is in DIR/pulsar. CARILLON_TEST_PULSAR_VERSION names another version that install-servers.sh has
# downloaded.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/process.sh"
arguments "$0" "$@"
lib=${CARILLON_CACHE:-$HOME/.cache/carillon}/pulsar-${CARILLON_TEST_PULSAR_VERSION:-4.0.7}/lib

. "$here/pulsar/java.sh"

start() {
  local data=$DIR/pulsar tls=$DIR/tls broker web bookie
  broker=$(port pulsar-broker)
  web=$(port pulsar-web)
  bookie=$(port pulsar-bookie)
  mkdir -p "$data"
  {
    cat "$here/pulsar/standalone.conf"
    printf '\nbrokerServicePort=%s\nwebServicePort=%s\nbindAddress=%s\nadvertisedAddress=%s\n' "$broker" "$web" "$ADDR" "$ADDR"
    printf 'brokerServicePortTls=%s\nwebServicePortTls=%s\n' "$(port pulsar-broker-tls)" "$(port pulsar-web-tls)"
    printf 'tokenSecretKey=file://%s\n' "$tls/token.key"
    printf 'tlsTrustCertsFilePath=%s\ntlsCertificateFilePath=%s\ntlsKeyFilePath=%s\n' "$tls/ca.pem" "$tls/server.pem" "$tls/server.key"
  } >"$data/standalone.conf"
  # Pulsar writes a few files into its working directory.
  cd "$data"
  spawn pulsar java "${java[@]}" -Xms256m -Xmx512m -XX:MaxDirectMemorySize=512m \
    -cp "$lib/*" org.apache.pulsar.PulsarStandaloneStarter \
    --config "$data/standalone.conf" --no-functions-worker --no-stream-storage \
    --bookkeeper-dir "$data/bookkeeper" --bookkeeper-port "$bookie" --metadata-dir "$data/metadata"
  healthy pulsar 120 curl -fsS -m 5 "http://$ADDR:$web/admin/v2/brokers/health"
}

case $1 in
  up)
    [ -d "$lib" ] || { echo "pulsar: no jars in $lib: run scripts/install-servers.sh" >&2 && exit 1; }
    alive pulsar || attempt pulsar start pulsar-broker pulsar-web pulsar-bookie pulsar-broker-tls pulsar-web-tls
    export_env pulsar "PULSAR_URL=pulsar://$ADDR:$(cat "$DIR/pulsar-broker.port")" \
      "PULSAR_ADMIN_URL=http://$ADDR:$(cat "$DIR/pulsar-web.port")" \
      "TEST_PULSAR_TLS_URL=pulsar+ssl://$ADDR:$(cat "$DIR/pulsar-broker-tls.port")" \
      "TEST_PULSAR_TLS_ADMIN_URL=https://$ADDR:$(cat "$DIR/pulsar-web-tls.port")" "TEST_TLS_DIR=$DIR/tls"
    ;;
  down)
    stop pulsar
    rm -f "$DIR/pulsar.env"
    ;;
esac
