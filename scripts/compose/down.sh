#!/usr/bin/env bash
# Ends the engine: down.sh. Ending the first process of its pid namespace ends every process in it, containers included, and frees network and
# mounts. Running it again does nothing. Images stay in $CARILLON_CACHE/compose.
set -uo pipefail
. "$(dirname "$0")/paths.sh"
if [ -s "$STATE/pid" ]; then
  pid=$(cat "$STATE/pid")
  # A number that the kernel gave to somebody else is left alone. The engine may write its store down first.
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
