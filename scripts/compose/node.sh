#!/usr/bin/env bash
# Runs as the engine's first process. Only up.sh starts it. Its child processes end with it.
set -u
mount --make-rprivate /
# Hide the host's own directories, if it has them.
mkdir -p /run/containerd /run/docker
mount -t tmpfs tmpfs /run/containerd
mount -t tmpfs tmpfs /run/docker
hostname carillon
# Nothing listens there, so lookups fail at once. The host's name server is unreachable from here,
# so lookups of containers that are not up yet would hang.
echo 'nameserver 10.98.0.1' >"$STATE/resolv.conf"
mount --bind "$STATE/resolv.conf" /etc/resolv.conf
ip link set lo up

dockerd --data-root "$STATE/../data" --exec-root /run/docker --pidfile "$STATE/docker.pid" --host "unix://$STATE/docker.sock" \
  --exec-opt native.cgroupdriver=cgroupfs --cgroup-parent /carillon-compose --bip 10.98.0.1/24 \
  --default-address-pool base=10.98.128.0/17,size=24 >"$STATE/dockerd.log" 2>&1 &

# Modules for builds. The containers reach no other network.
for _ in $(seq 300); do
  ip -o addr show docker0 2>/dev/null | grep -q 10.98.0.1 && break
  sleep 0.1
done
files 10.98.0.1:8100 "$MODULES" &

trap 'kill -TERM $(cat "$STATE/docker.pid"); wait; exit 0' TERM
wait
while :; do
  sleep 3600 &
  wait
done
