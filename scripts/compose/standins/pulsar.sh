#!/bin/bash
# Starts bin/pulsar standalone as the distribution's script does.
set -euo pipefail
[ "${1:-}" = standalone ] || { echo "the stand-in for Pulsar only knows: pulsar standalone" >&2 && exit 2; }
opens=()
for package in java.nio jdk.internal.misc java.lang java.util.zip java.io sun.net jdk.internal.platform; do
  opens+=(--add-opens "java.base/$package=ALL-UNNAMED")
done
# PULSAR_MEM consists of several words.
# shellcheck disable=SC2086
exec java ${PULSAR_MEM:--Xms512m -Xmx512m} -XX:+ExitOnOutOfMemoryError "${opens[@]}" --add-opens java.management/sun.management=ALL-UNNAMED \
  -Dlog4j2.configurationFile=/pulsar/conf/log4j2.properties -Dio.netty.tryReflectionSetAccessible=true -cp '/pulsar/lib/*' \
  org.apache.pulsar.PulsarStandaloneStarter --config conf/standalone.conf --bookkeeper-dir data/standalone/bookkeeper \
  --metadata-dir data/standalone/metadata "${@:2}"
