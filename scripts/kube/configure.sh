# Sourced by up.sh: writes the cluster's keys and configuration into STATE. Each unusual setting is
# there because the cluster failed without it.

# keys creates a certificate authority, the API server's certificate, the certificate by which other
# API servers know it, the key of service accounts, and an administrator's token.
keys() {
  local pki=$STATE/pki token names
  names=DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc,DNS:localhost,IP:127.0.0.1,IP:10.96.0.1,IP:10.99.0.1
  (
    umask 077
    exec 2>>"$STATE/log/keys.log"
    cd "$pki"
    openssl ecparam -name prime256v1 -genkey -noout -out ca.key
    openssl req -x509 -new -key ca.key -subj /CN=carillon-ca -days 30 -out ca.crt
    openssl ecparam -name prime256v1 -genkey -noout -out apiserver.key
    openssl req -new -key apiserver.key -subj /CN=kube-apiserver -out apiserver.csr
    printf 'subjectAltName=%s\nextendedKeyUsage=serverAuth\n' "$names" >ext
    openssl x509 -req -in apiserver.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 30 -extfile ext -out apiserver.crt
    openssl ecparam -name prime256v1 -genkey -noout -out proxy.key
    openssl req -new -key proxy.key -subj /CN=front-proxy -out proxy.csr
    echo 'extendedKeyUsage=clientAuth' >ext
    openssl x509 -req -in proxy.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 30 -extfile ext -out proxy.crt
    openssl genrsa -out sa.key 2048
    openssl rsa -in sa.key -pubout -out sa.pub
  )
  token=$(openssl rand -hex 16)
  (umask 077 && echo "$token,admin,1,system:masters" >"$pki/tokens.csv")
  (umask 077 && cat >"$STATE/kubeconfig") <<-YAML
	apiVersion: v1
	kind: Config
	clusters: [{name: carillon, cluster: {server: "https://10.99.0.1:6443", certificate-authority: $pki/ca.crt}}]
	users: [{name: admin, user: {token: $token}}]
	contexts: [{name: carillon, context: {cluster: carillon, user: admin}}]
	current-context: carillon
	YAML
}

# configuration fills in the templates.
configuration() {
  local file
  for file in "$HERE"/config/*; do
    sed "s|@STATE@|$STATE|g" "$file" >"$STATE/$(basename "$file")"
  done
  mv "$STATE/10-carillon.conflist" "$STATE/cni/"
  : >"$STATE/resolv.conf"
}

# cgroups creates a cgroup for the cluster in each hierarchy.
cgroups() {
  local h
  for h in /sys/fs/cgroup/*/ /sys/fs/cgroup/; do
    [ -e "$h/cgroup.procs" ] || continue
    mkdir -p "$h/carillon-kube" 2>/dev/null || continue
    if [ -e "$h/carillon-kube/cpuset.cpus" ] && [ -e "$h/cpuset.cpus" ]; then
      cat "$h/cpuset.cpus" >"$h/carillon-kube/cpuset.cpus"
      cat "$h/cpuset.mems" >"$h/carillon-kube/cpuset.mems"
    fi
    # By default all pods together weigh as much as one process of the host. This gives them the
    # weight of ten.
    [ ! -e "$h/carillon-kube/cpu.shares" ] || echo 10240 >"$h/carillon-kube/cpu.shares"
    [ ! -e "$h/carillon-kube/cpu.weight" ] || echo 1000 >"$h/carillon-kube/cpu.weight"
  done
}
