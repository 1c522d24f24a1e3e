#!/usr/bin/env bash
# Stops the cluster: down.sh.
#
# The first process of its pid namespace ends, and with it every process there, containers of pods
# included. That frees network and mounts. A second run does nothing.
set -uo pipefail
. "$(dirname "$0")/paths.sh"
if [ -s "$STATE/pid" ]; then
  pid=$(cat "$STATE/pid")
  # Do not kill a process that has reused the pid.
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
