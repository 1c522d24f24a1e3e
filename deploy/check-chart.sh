# Sourced by check.sh if helm exists: checks that the chart renders valid values and refuses invalid
# ones.

# A Kubernetes version that the chart allows. helm from `go install` assumes an old one.
render() { helm template carillon helm/carillon --kube-version 1.31.0 "$@"; }
for values in helm/carillon/ci/*.yaml; do
  helm lint --strict --quiet helm/carillon -f "$values" >&2 || complain "helm lint with $values"
  render -f "$values" >/dev/null || complain "helm template with $values"
done
for example in helm/carillon/examples/*.yaml; do # the last of several documents has the values
  awk '/^---$/ { text = ""; next } { text = text $0 "\n" } END { printf "%s", text }' "$example" |
    render -f helm/carillon/ci/least.yaml -f - >/dev/null || complain "helm template with $example"
done
least=(-f helm/carillon/ci/least.yaml)

# Keys are files, in the services that need them, and not environment variables.
have=$(render -f helm/carillon/ci/production.yaml | awk '
  /^---/ { name = "" }
  /^  name: / { name = name == "" ? $2 : name }
  match($0, /name: CARILLON_[A-Z_]+_FILE/) { print name, substr($0, RSTART + 6, RLENGTH - 6) }')
want='carillon-api CARILLON_ADMIN_KEY_FILE
carillon-api CARILLON_OIDC_CLIENT_SECRET_FILE
carillon-api CARILLON_API_KEYS_FILE
carillon-api CARILLON_ENCRYPTION_KEYS_FILE
carillon-executor CARILLON_ENCRYPTION_KEYS_FILE'
[ "$have" = "$want" ] || complain "the chart gives keys to: $have"

# Certificates and Pulsar's key are files in the services that use them, and in the set-up before them.
have=$(render -f helm/carillon/ci/production.yaml | awk '
  /^---/ { name = "" }
  /^  name: / { name = name == "" ? $2 : name }
  match($0, /name: CARILLON_[A-Z]+_TLS_(CA|CERT|KEY)|CARILLON_PULSAR_OAUTH2_KEY_FILE/) { n[name]++ }
  match($0, /name: CARILLON_HTTP_TLS_(CERT|KEY)/) { http[name]++ }
  END { for (name in n) print name, n[name], http[name] + 0 }' | sort)
want='carillon-api 10 2
carillon-executor 8 0
carillon-migrator 8 0
carillon-scheduler 8 0
carillon-setup 8 0
carillon-trigger 8 0'
[ "$have" = "$want" ] || complain "the chart gives certificates to: $have"

# The programs must accept the keys that the chart generates.
if tool go; then
  made=$(render "${least[@]}" -s templates/keys.yaml)
  key() { sed -nE "s/^  $1: (.+)$/\1/p" <<<"$made" | base64 -d; }
  CARILLON_ADMIN_KEY=$(key adminKey) CARILLON_ENCRYPTION_KEYS=$(key encryptionKeys) go run ./services/cli/cmd/carillon dev -print-config |
    grep -c '^\(admin-key\|encryption-keys\): "REDACTED"' | grep -qx 2 || complain "the programs do not take the keys that the chart makes"
fi

# Each variable that the chart sets has the value of extraEnv, if that has one, and no other besides.
# A "$" stays one: Kubernetes reads "$$" as "$".
names=$(render -f helm/carillon/ci/production.yaml | grep -oE '\b(CARILLON|OTEL)_[A-Z0-9_]+\b' | sort -u)
[ "$(wc -l <<<"$names")" -gt 50 ] || complain "hardly a variable found in the chart: is the search out of date?"
have=$(sed 's/.*/  &: my$(own)/' <<<"$names" | cat <(echo 'extraEnv:') - |
  render -f helm/carillon/ci/production.yaml -f - | awk '
  match($0, /(CARILLON|OTEL)_[A-Z0-9_]+/) {
    name = substr($0, RSTART, RLENGTH)
    if ($0 !~ /- name: [A-Z0-9_]+$/) { print name, "elsewhere"; next }
    getline
    if ($0 !~ /value: my\$\$\(own\)$/) print name, $0
    n[name]++
  }
  END { for (name in n) print name, n[name] }' | sort)
want=$(sed 's/$/ 6/' <<<"$names") # of five services and the set-up
[ "$have" = "$want" ] || complain "extraEnv does not override: $(comm -3 <(sort <<<"$want") <(sort <<<"$have") | head -5)"

# KEDA takes one address of Pulsar.
have=$(render "${least[@]}" --set executor.keda.enabled=true --set 'pulsar.adminUrl=http://a:8080\,b:8080' | sed -n 's/.*adminURL: //p' | sort -u)
[ "$have" = '"http://a:8080"' ] || complain "the chart gives KEDA the address $have"

# refused WANT ARGUMENT…: checks that the chart refuses the arguments with the message WANT.
refused() {
  local want=$1 said
  shift
  if said=$(render "$@" 2>&1); then complain "the chart renders with $*"; else grep -q "$want" <<<"$said" || complain "the chart refuses $* with: $said"; fi
}
refused 'redis.addrs: at least one'
refused "'executer' not allowed" "${least[@]}" --set executer.replicas=3
refused "'replica' not allowed" "${least[@]}" --set executor.replica=3
refused "/settings/expandAhead" "${least[@]}" --set settings.expandAhead=soon
refused 'api.keda: only the trigger and the executor' "${least[@]}" --set api.keda.enabled=true
refused 'keda and autoscaling would both' "${least[@]}" --set trigger.keda.enabled=true,trigger.autoscaling.enabled=true
refused 'ingress.hosts' "${least[@]}" --set ingress.enabled=true
refused 'gateway.parentRefs' "${least[@]}" --set gateway.enabled=true
refused 'auth.adminKey: is not what' "${least[@]}" --set auth.adminKey=hunter2
refused 'auth.adminKey: given together' "${least[@]}" --set "auth.adminKey=crl_$(printf '0%.0s' {1..12})_$(printf '0%.0s' {1..49}),auth.adminKeySecret.name=mine"
refused 'encryption.keys: is not what' "${least[@]}" --set encryption.keys=hunter2
refused 'mysql.tls: its Secrets are without effect' "${least[@]}" --set mysql.tls.certSecret=mine
refused 'redis.tls: its Secrets are without effect' "${least[@]}" --set redis.tls.caSecret.name=mine
refused 'pulsar.tls: its Secrets are without effect' "${least[@]}" --set pulsar.tls.caSecret.name=mine
refused 'pulsar.oauth2: issuer needs keySecret' "${least[@]}" --set pulsar.oauth2.issuer=https://login
refused 'pulsar.token: given together' "${least[@]}" --set pulsar.token=t,pulsar.oauth2.issuer=https://login,pulsar.oauth2.keySecret.name=mine
refused 'mysql.tls: the development servers have no TLS' --set developmentServers.enabled=true,mysql.tls.enabled=true
refused 'auth.trustHeader: needs auth.trustFrom' "${least[@]}" --set auth.trustHeader=X-App
refused '/auth/trustFrom' "${least[@]}" --set 'auth.trustFrom={everywhere}'
oidc=auth.oidc.issuer=https://id,auth.oidc.clientID=carillon
refused 'auth.oidc.issuer: needs auth.oidc.clientID' "${least[@]}" --set auth.oidc.issuer=https://id
refused 'auth.oidc.issuer: needs auth.oidc.roles' "${least[@]}" --set "$oidc"
refused 'auth.oidc.audience: must be another' "${least[@]}" --set "$oidc,auth.oidc.audience=carillon,auth.oidc.roles={a=viewer@*}"
refused 'auth.oidc.issuer: needed by' "${least[@]}" --set auth.oidc.clientID=carillon
refused '/auth/oidc/roles' "${least[@]}" --set "$oidc,auth.oidc.roles={a=king@*}"
refused 'auth.enabled: false lets everybody in' "${least[@]}" --set "auth.enabled=false,$oidc,auth.oidc.roles={a=viewer@*}"
refused 'auth.enabled: false lets everybody in' "${least[@]}" --set auth.enabled=false,apiKeysSecret=keys
