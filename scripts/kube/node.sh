#!/usr/bin/env bash
# Runs as the node's first process. Only up.sh starts it. Its child processes end with it.
set -u
export PATH=$BIN:/usr/sbin:/usr/bin:/sbin:/bin KUBECONFIG=$STATE/kubeconfig
log=$STATE/log

mount --make-rshared /
mount -t tmpfs tmpfs /run/containerd
mount --bind "$STATE/containerd" /var/lib/containerd
mount --bind "$STATE/kubelet" /var/lib/kubelet
mount --make-rshared /var/lib/kubelet
mkdir -p "$STATE/pods/pods" "$STATE/pods/containers"
mount --bind "$STATE/pods/pods" /var/log/pods
mount --bind "$STATE/pods/containers" /var/log/containers
hostname carillon
ip link set lo up
ip link add node0 type bridge
ip addr add 10.99.0.1/24 dev node0
ip link set node0 up
ip route add default via 10.99.0.254 dev node0 # kubelet needs a default route; this one leads nowhere
echo 1 >/proc/sys/net/ipv4/ip_forward
echo 1 >/proc/sys/net/bridge/bridge-nf-call-iptables 2>/dev/null
echo 1 >/proc/sys/net/ipv6/conf/all/disable_ipv6

# The cluster ends with the run, so nothing in it needs to survive a power failure.
etcd --data-dir "$STATE/etcd" --listen-client-urls http://127.0.0.1:2379 --advertise-client-urls http://127.0.0.1:2379 \
  --listen-peer-urls http://127.0.0.1:2380 --logger zap --log-level warn --unsafe-no-fsync >"$log/etcd.log" 2>&1 &
containerd --config "$STATE/containerd.toml" >"$log/containerd.log" 2>&1 &
for _ in $(seq 100); do
  ctr version >/dev/null 2>&1 && break
  sleep 0.1
done
ctr -n k8s.io images import "$STATE/images/pause.tar"

kube-apiserver --etcd-servers http://127.0.0.1:2379 --bind-address 0.0.0.0 --advertise-address 10.99.0.1 --secure-port 6443 \
  --service-cluster-ip-range 10.96.0.0/16 --tls-cert-file "$STATE/pki/apiserver.crt" --tls-private-key-file "$STATE/pki/apiserver.key" \
  --client-ca-file "$STATE/pki/ca.crt" --token-auth-file "$STATE/pki/tokens.csv" --authorization-mode Node,RBAC --allow-privileged \
  --service-account-issuer https://kubernetes.default.svc --service-account-key-file "$STATE/pki/sa.pub" \
  --service-account-signing-key-file "$STATE/pki/sa.key" --kubelet-preferred-address-types InternalIP \
  --requestheader-client-ca-file "$STATE/pki/ca.crt" --requestheader-allowed-names front-proxy --requestheader-username-headers X-Remote-User \
  --requestheader-group-headers X-Remote-Group --requestheader-extra-headers-prefix X-Remote-Extra- \
  --proxy-client-cert-file "$STATE/pki/proxy.crt" --proxy-client-key-file "$STATE/pki/proxy.key" \
  --endpoint-reconciler-type lease --watch-cache >"$log/apiserver.log" 2>&1 &
for _ in $(seq 300); do
  kubectl get --raw /readyz >/dev/null 2>&1 && break
  sleep 0.3
done
kube-controller-manager --kubeconfig "$KUBECONFIG" --service-account-private-key-file "$STATE/pki/sa.key" \
  --root-ca-file "$STATE/pki/ca.crt" --use-service-account-credentials --leader-elect=false --bind-address 127.0.0.1 \
  --cluster-cidr 10.244.0.0/16 >"$log/controllers.log" 2>&1 &
kube-scheduler --kubeconfig "$KUBECONFIG" --leader-elect=false --bind-address 127.0.0.1 >"$log/scheduler.log" 2>&1 &
kubelet --config "$STATE/kubelet.yaml" --kubeconfig "$KUBECONFIG" --hostname-override carillon --node-ip 10.99.0.1 \
  --root-dir /var/lib/kubelet >"$log/kubelet.log" 2>&1 &
kube-proxy --config "$STATE/proxy.yaml" >"$log/proxy.log" 2>&1 &
coredns -conf "$STATE/Corefile" >"$log/coredns.log" 2>&1 &

trap 'exit 0' TERM
wait
while :; do
  sleep 3600 &
  wait
done
