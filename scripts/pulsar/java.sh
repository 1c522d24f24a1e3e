# Sourced by the scripts that start Pulsar: sets java to the options that all its processes need.
#
# They open the packages that Netty, BookKeeper and RocksDB access by reflection.
java=(-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:+ExitOnOutOfMemoryError)
for package in java.nio jdk.internal.misc java.lang java.util.zip java.io sun.net jdk.internal.platform; do
  java+=(--add-opens "java.base/$package=ALL-UNNAMED")
done
java+=(--add-opens java.management/sun.management=ALL-UNNAMED
  -Dlog4j2.configurationFile="$here/pulsar/log4j2.properties" -Dpulsar.allocator.exit_on_oom=true
  -Dio.netty.tryReflectionSetAccessible=true)
