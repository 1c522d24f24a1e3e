#!/usr/bin/env bash
# Ends the cluster: down.sh. Ending the first process of its pid namespace ends every process in it, pods included, and frees network and mounts.
# Running it again does nothing.
set -uo pipefail
. "$(dirname "$0")/paths.sh"
if [ -s "$STATE/pid" ]; then
  pid=$(cat "$STATE/pid")
  # A number that the kernel gave to somebody else is left alone.
  if tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null | grep -q 'scripts/kube/node.sh'; then
    kill -KILL "$pid" 2>/dev/null
    for _ in $(seq 50); do
      [ -d "/proc/$pid" ] || break
      sleep 0.1
    done
  fi
fi
for group in /sys/fs/cgroup/*/carillon-kube /sys/fs/cgroup/carillon-kube; do
  [ ! -d "$group" ] || find "$group" -depth -type d -exec rmdir {} + 2>/dev/null
done
[ ! -d "$STATE" ] || { chattr -R -i "$STATE" 2>/dev/null; rm -rf "$STATE"; }
exit 0
