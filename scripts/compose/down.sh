#!/usr/bin/env bash
# Stops the engine: down.sh.
#
# The first process of its pid namespace ends, and with it every process there, containers included.
# That frees network and mounts. A second run does nothing. Images stay in $CARILLON_CACHE/compose.
set -uo pipefail
. "$(dirname "$0")/paths.sh"
if [ -s "$STATE/pid" ]; then
  pid=$(cat "$STATE/pid")
  # Do not kill a process that has reused the pid. First let the engine write its state to disk.
  if tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null | grep -q 'scripts/compose/node.sh'; then
    kill -TERM "$pid" 2>/dev/null
    for i in $(seq 300); do
      [ -d "/proc/$pid" ] || break
      [ "$i" != 250 ] || kill -KILL "$pid" 2>/dev/null
      sleep 0.1
    done
  fi
fi
for group in /sys/fs/cgroup/*/carillon-compose /sys/fs/cgroup/carillon-compose; do
  [ ! -d "$group" ] || find "$group" -depth -type d -exec rmdir {} + 2>/dev/null
done
rm -rf "$STATE"
exit 0
