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

# A pod keeps the settings of its release when its containers start again: they are in its template,
# and of the chart's Secret come single keys. Only what is the user's is taken as a whole.
have=$(render -f helm/carillon/ci/small.yaml | grep -E 'kind: ConfigMap|envFrom|(configMap|secret)Ref' || true)
[ -z "$have" ] || complain "the chart's pods read, when they start: $have"
have=$(render -f helm/carillon/ci/small.yaml --set setup.enabled=true | awk '
  /^---/ { name = variable = "" }
  /^  name: / { name = name == "" ? $2 : name }
  $2 == "name:" { variable = $3 }
  variable ~ /^CARILLON_(ZONE|MYSQL_DSN|REDIS_PASSWORD|PULSAR_TOKEN)$/ && ($1 == "value:" || $1 == "name:") { said[name] = said[name] " " $2 }
  END { for (name in said) print name said[name] }' | sort)
want=$(printf 'tiny-%s UTC tiny tiny tiny\n' api executor migrator scheduler setup trigger | sed '/setup/s/tiny$/&-setup/; /setup/s/UTC tiny tiny/UTC tiny-setup tiny-setup/')
[ "$have" = "$want" ] || complain "the chart takes settings and secrets from: $have"
# It also starts if a newer release has no password of Redis and no token of Pulsar. Without a database
# it does not.
have=$(render -f helm/carillon/ci/small.yaml -s templates/deployments.yaml | awk '
  $2 == "name:" { variable = $3 }
  $1 == "secretKeyRef:" { n[variable " "]++ }
  $1 == "optional:" { n[variable " " $2]++ }
  END { for (name in n) print n[name], name }' | sort | xargs)
want='5 CARILLON_MYSQL_DSN 5 CARILLON_PULSAR_TOKEN 5 CARILLON_PULSAR_TOKEN true 5 CARILLON_REDIS_PASSWORD 5 CARILLON_REDIS_PASSWORD true'
[ "$have" = "$want" ] || complain "the chart's pods need of its Secret: $have"
have=$(render -f helm/carillon/ci/production.yaml | grep -A1 'secretRef:$' | grep -cE '^ +name: carillon-(servers|more)$')
[ "$have" = 12 ] || complain "the chart gives $have times the variables of the user's Secrets"

# OpenShift chooses users and groups itself.
have=$(render -f helm/carillon/ci/small.yaml --set setup.enabled=true,podSecurityContext.runAsUser=null,podSecurityContext.runAsGroup=null,podSecurityContext.fsGroup=null |
  grep -oE '(runAs(User|Group|NonRoot)|fsGroup): .*|type: RuntimeDefault' | sort | uniq -c | xargs)
[ "$have" = '7 runAsNonRoot: true 7 type: RuntimeDefault' ] || complain "the chart's pods have without a user: $have"

# The examples let pass what the API takes: streams that last, and bodies.
grep -q '^  timeouts: {request: 0s}$' helm/carillon/examples/envoy-gateway.yaml || complain "the example for Envoy limits the time of a request"
have=$(render "${least[@]}" --set gateway.enabled=true,gateway.parentRefs[0].name=public,gateway.timeouts.request=0s -s templates/routes.yaml | grep -A1 timeouts: | xargs)
[ "$have" = 'timeouts: request: 0s' ] || complain "the chart's route has: $have"
most=$(grep -oE 'MaxRequestBytes += [0-9]+ << 20' <<<"$sources" | grep -oE '[0-9]+ <<' | grep -oE '[0-9]+')
have=$(grep -oE 'proxy-body-size: [0-9]+m' helm/carillon/examples/nginx.yaml | grep -oE '[0-9]+')
[ "${have:-0}" -gt "${most:-0}" ] || complain "the example for nginx takes bodies of ${have:-?} MiB, and the API ${most:-?}"

# Each Go program keeps below its own limit of memory.
have=$(render "${least[@]}" --set api.resources.limits.memory=1.5G,migrator.resources.limits.memory=1000000000,scheduler.resources.limits=null,defaults.resources.limits=null,trigger.resources.limits.memory=2097152Ki | awk '
  /^---/ { name = "" }
  /^  name: / { name = name == "" ? $2 : name }
  $3 == "GOMEMLIMIT" { getline; print name, $2 }' | sort)
want='carillon-api 1318359KiB
carillon-executor 943718KiB
carillon-migrator 878906KiB
carillon-setup 235929KiB
carillon-trigger 1887436KiB'
[ "$have" = "$want" ] || complain "the chart sets GOMEMLIMIT: $have"
for limit in 1e9=878906 1E9=878906 +1e+9=878906 128974848000m=113356 .5Gi=471859 5.Gi=4718592 1E=878906250000000 0= 0Mi= 128m=; do
  have=$(render "${least[@]}" --set-string "api.resources.limits.memory=${limit%=*}" -s templates/deployments.yaml | awk '
    $1 == "name:" && name == "" { name = $2 }
    /^---/ { name = "" }
    name == "carillon-api" && $3 == "GOMEMLIMIT" { getline; print $2 }')
  [ "${have%KiB}" = "${limit#*=}" ] || complain "the chart sets GOMEMLIMIT for a limit of ${limit%=*}: $have"
done
have=$(printf 'api: {resources: {limits: {memory: %s}}}\n' 1e9 | render "${least[@]}" -f - | grep -c 'value: 878906KiB' || true)
[ "$have" = 1 ] || complain "the chart sets GOMEMLIMIT $have times for a limit of 1e9 that is a number"
have=$(render "${least[@]}" --set extraEnv.GOMEMLIMIT=1GiB,api.resources.limits.memory=much | grep -A1 'name: GOMEMLIMIT' | grep -c 'value: 1GiB$')
[ "$have" = 6 ] || complain "extraEnv sets GOMEMLIMIT $have times"

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

# Every pod takes labels, annotations, placement and files of the defaults, and what it has of its own.
# The test has files of its own only.
have=$(render -f helm/carillon/ci/production.yaml | awk '
  /^---/ { name = "" }
  /^  name: / { name = name == "" ? $2 : name }
  /^ +(kubernetes.io\/arch: amd64|- key: disk|key: dedicated|priorityClassName: timers)$/ { placed[name]++ }
  /^ +example.com\/team: timers$/ { placed[name]++ }
  /^ +example.com\/owner: / { owner[name] = $2 }
  /sidecar.istio.io\/inject: "false"/ { sidecar[name] = "alone" }
  /mountPath: \/(etc\/authorities|tmp)$/ { mounts[name]++ }
  /^ +name: authorities$|^ +name: scratch$/ { volumes[name]++ }
  END { for (name in placed) print name, placed[name], owner[name], mounts[name] + 0, volumes[name] + 0, sidecar[name] }' | sort)
want='carillon-api 5 team 1 3
carillon-executor 5 executors 2 5
carillon-migrator 5 team 1 3
carillon-scheduler 5 team 1 3
carillon-setup 5 team 1 3 alone
carillon-test 4 team 0 0 alone
carillon-trigger 5 team 1 3'
[ "$(sed 's/ $//' <<<"$have")" = "$want" ] || complain "the chart gives the pods: $have"

# The programs must accept the keys that the chart generates.
if tool go; then
  made=$(render "${least[@]}" -s templates/keys.yaml)
  key() { sed -nE "s/^  $1: (.+)$/\1/p" <<<"$made" | base64 -d; }
  CARILLON_ADMIN_KEY=$(key adminKey) CARILLON_ENCRYPTION_KEYS=$(key encryptionKeys) go run ./services/cli/cmd/carillon dev -print-config |
    grep -c '^\(admin-key\|encryption-keys\): "REDACTED"' | grep -qx 2 || complain "the programs do not take the keys that the chart makes"
fi

# Each variable that the chart sets has the value of extraEnv, if that has one, and no other besides.
# A "$" stays one: Kubernetes reads "$$" as "$".
# The chart's ports stay.
names=$(render -f helm/carillon/ci/production.yaml | grep -oE '\b(CARILLON|OTEL)_[A-Z0-9_]+\b' | grep -vx 'CARILLON_\(HTTP\|ADMIN\)_ADDR' | sort -u)
[ "$(wc -l <<<"$names")" -gt 50 ] || complain "hardly a variable found in the chart: is the search out of date?"
have=$(sed 's/.*/  &: my$(own)/' <<<"$names" | cat <(echo 'extraEnv:') - |
  render -f helm/carillon/ci/production.yaml -f - | awk '
  match($0, /(CARILLON|OTEL)_[A-Z0-9_]+/) {
    name = substr($0, RSTART, RLENGTH)
    if (name ~ /^CARILLON_(HTTP|ADMIN)_ADDR$/) next
    if ($0 !~ /- name: [A-Z0-9_]+$/) { print name, "elsewhere"; next }
    getline
    if ($0 !~ /value: my\$\$\(own\)$/) print name, $0
    n[name]++
  }
  END { for (name in n) print name, n[name] }' | sort)
want=$(sed 's/$/ 6/' <<<"$names") # of five services and the set-up
[ "$have" = "$want" ] || complain "extraEnv does not override: $(comm -3 <(sort <<<"$want") <(sort <<<"$have") | head -5)"

# MySQL's data are not in the root of a volume, which has lost+found.
have=$(render -f helm/carillon/ci/development.yaml | grep -oE 'mountPath: (/var/lib/mysql|/pulsar/data).*')
want='mountPath: /var/lib/mysql, subPath: mysql}
mountPath: /pulsar/data}'
[ "$have" = "$want" ] || complain "the development servers have their data in: $have"

# What renders without a cluster leaves the replicas to an autoscaler.
have=$(render -f helm/carillon/ci/production.yaml -s templates/deployments.yaml | awk '
  $1 == "name:" && name == "" { name = $2 }
  /^---/ { name = "" }
  /^  replicas: / { print name, $2 }')
want='carillon-migrator 2
carillon-scheduler 2'
[ "$have" = "$want" ] || complain "the chart without a cluster gives replicas: $have"

# KEDA takes one address of Pulsar.
have=$(render "${least[@]}" --set executor.keda.enabled=true --set 'pulsar.adminUrl=http://a:8080\,b:8080' | sed -n 's/.*adminURL: //p' | sort -u)
[ "$have" = '"http://a:8080"' ] || complain "the chart gives KEDA the address $have"

# KEDA allows each service its own backlog, and takes more triggers.
have=$(render -f helm/carillon/ci/production.yaml -s templates/scaling.yaml | sed -n 's/.*msgBacklogThreshold: //p' | sort | uniq -c | xargs)
[ "$have" = '1 50 3 5000' ] || complain "the chart gives KEDA the backlogs $have"
have=$(awk '/^---$/ { text = ""; next } { text = text $0 "\n" } END { printf "%s", text }' helm/carillon/examples/keda.yaml |
  render "${least[@]}" -f - -s templates/scaling.yaml | awk '$2 == "component:" || $1 ~ /component:/ { of = $2 } /^ +(- )?type: p/ { print of, $NF }' | sort | uniq -c | xargs)
[ "$have" = '1 executor prometheus 3 executor pulsar 1 trigger pulsar' ] || complain "the example for KEDA has the triggers $have"

# The set-up runs before an account of the chart exists.
for create in true=6 false=7; do # five services, the test, and the set-up
  have=$(render "${least[@]}" --set "serviceAccount.create=${create%=*},serviceAccount.name=mine" | grep -c 'serviceAccountName: mine$')
  [ "$have" = "${create#*=}" ] || complain "$have pods use the account with serviceAccount.create=${create%=*}"
done

# The ServiceMonitor selects the ports named admin, which only the services have.
have=$(render -f helm/carillon/ci/development.yaml | awk '/^kind: / { kind = $2 } kind == "Service" && /component:/ { of = $2 } kind == "Service" && /name: admin,/ { print of }' | sort | xargs)
[ "$have" = 'api executor migrator scheduler trigger' ] || complain "the ServiceMonitor selects the Services of $have"

# Relabelings of the user come last.
have=$(render "${least[@]}" --set 'metrics.serviceMonitor.enabled=true,metrics.serviceMonitor.relabelings[0].targetLabel=namespace' -s templates/monitoring.yaml | tail -1)
[ "$have" = '        - targetLabel: namespace' ] || complain "the ServiceMonitor ends with: $have"

# helm test waits for the canary if there is one.
for canary in 10s=1 1m=1 0=0 0s=0 0m0s=0; do
  have=$(render "${least[@]}" --set-string "settings.canary=${canary%=*}" | grep -c -- '- -canary' || true)
  [ "$have" = "${canary#*=}" ] || complain "helm test waits for $have canaries with settings.canary=${canary%=*}"
done
have=$(render "${least[@]}" --set-string extraEnv.CARILLON_CANARY=0s | grep -c -- '- -canary' || true)
[ "$have" = 0 ] || complain "helm test waits for a canary that extraEnv switches off"

# The chart refuses the values that the programs refuse, and no others: the bounds of each setting.
# The programs must also accept what the chart makes of the valid values.
if tool go; then
  program=$(mktemp -d)
  go build -o "$program" ./services/cli/cmd/carillon
  # accepted VARIABLE=VALUE…: succeeds if the programs take the settings. The set-up checks those of
  # the servers, and dev all others.
  accepted() {
    local command
    for command in dev setup; do
      env -i "HOME=$HOME" 'CARILLON_MYSQL_DSN=carillon:pw@tcp(mysql:3306)/carillon' CARILLON_REDIS_ADDRS=redis:6379 \
        CARILLON_PULSAR_URL=pulsar://pulsar:6650 CARILLON_PULSAR_ADMIN_URL=http://pulsar:8080 "$@" \
        "$program/carillon" $command -print-config >"$program/said" 2>&1 || return
    done
  }
  for values in helm/carillon/ci/*.yaml; do
    mapfile -t settings < <(render -f "$values" -s templates/deployments.yaml | awk '
      /^kind: Deployment$/ { deployments++ }
      deployments > 1 { exit }
      /^ +value: / && name ~ /^(CARILLON|OTEL)_/ { sub(/^ +value: /, ""); gsub(/^["\047]|["\047]$/, ""); print name "=" $0 }
      { name = $2 == "name:" ? $3 : "" }' | grep -v '^[A-Z]*_PULSAR_OAUTH2_\|=/etc/carillon/') # without files
    [ "${#settings[@]}" -gt 20 ] || complain "hardly a setting found with $values: is the search out of date?"
    accepted "${settings[@]}" || complain "the programs do not take the settings of $values: $(head -3 "$program/said")"
  done
  while read -r value variable texts; do
    for text in $texts; do
      chart=yes programs=yes
      render "${least[@]}" --set "$value=$text" >/dev/null 2>&1 || chart=no
      accepted "$variable=$text" || programs=no
      [ $chart = $programs ] || complain "$value=$text: accepted by the chart: $chart, by the programs: $programs"
    done
  done <<'END'
settings.expandAhead CARILLON_EXPAND_AHEAD 9.999s 10s 24h 24h0m0.1s 1d 1d0.1s
settings.dispatchLead CARILLON_DISPATCH_LEAD 999ms 1s 10s 10001ms
settings.retention CARILLON_RETENTION 23h59m59.9s 24h 876000h 876001h 0.9d 1d 1.5d 1d12h 36500d 36500d1s 1h1d 1d1d d
settings.auditRetention CARILLON_AUDIT_RETENTION 59m59s 1h 876000h 876001h
settings.canary CARILLON_CANARY 1s 10m 10m1s 1500ms
settings.shutdownGrace CARILLON_SHUTDOWN_GRACE 999ms 1s
settings.executorCalls CARILLON_EXECUTOR_CALLS 1 2 16384 16385
settings.executorInflight CARILLON_EXECUTOR_INFLIGHT 999 1000 10000000 10000001
settings.mysqlConnections CARILLON_MYSQL_CONNECTIONS 1 2 1000 1001
settings.pulsarPartitions CARILLON_PULSAR_PARTITIONS 0 1 256 257
settings.logLevel CARILLON_LOG_LEVEL trace debug
settings.callbackTopics[0] CARILLON_CALLBACK_TOPICS team team/orders team/orders/ persistent://team/orders/due a/b/c/d a:b/c pulsar/system pulsars/system non-persistent://a/b
settings.callbackPulsarUrls[0] CARILLON_CALLBACK_PULSAR_URLS pulsar://a pulsar://a:6650 pulsar+ssl://a:6651/ http://a:6650
settings.callbackAllow[0] CARILLON_CALLBACK_ALLOW 10.0.0.0/8 a.internal:443
auth.oidc.session CARILLON_OIDC_SESSION 59s 1m 744h 745h 31d 32d
END
  rm -r "$program"
fi

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
for value in existingSecret=mine redis.username=u redis.password=pw pulsar.token=t \
  pulsar.oauth2.issuer=https://login,pulsar.oauth2.keySecret.name=mine; do
  refused "${value%%=*}: given together with developmentServers.enabled" --set "developmentServers.enabled=true,$value"
done
refused 'auth.trustHeader: needs auth.trustFrom' "${least[@]}" --set auth.trustHeader=X-App
refused '/auth/trustFrom' "${least[@]}" --set 'auth.trustFrom={everywhere}'
oidc=auth.oidc.issuer=https://id,auth.oidc.clientID=carillon
refused 'auth.oidc.issuer: needs auth.oidc.clientID' "${least[@]}" --set auth.oidc.issuer=https://id
refused 'auth.oidc.issuer: needs auth.oidc.roles' "${least[@]}" --set "$oidc"
refused 'auth.oidc.audience: must be another' "${least[@]}" --set "$oidc,auth.oidc.audience=carillon,auth.oidc.roles={a=viewer@*}"
for value in clientID=carillon redirectURL=https://timers/ui/sign-in/callback sessionsSince=2030-01-31T09:00:00Z; do
  refused 'auth.oidc.issuer: needed by' "${least[@]}" --set "auth.oidc.$value"
done
refused 'auth.oidc.scopes: openid is not' "${least[@]}" --set "$oidc,auth.oidc.scopes={profile},auth.oidc.roles={a=viewer@*}"
refused '/auth/oidc/roles' "${least[@]}" --set "$oidc,auth.oidc.roles={a=king@*}"
refused 'auth.enabled: false lets everybody in' "${least[@]}" --set "auth.enabled=false,$oidc,auth.oidc.roles={a=viewer@*}"
refused 'auth.enabled: false lets everybody in' "${least[@]}" --set auth.enabled=false,apiKeysSecret=keys
refused 'api.autoscaling.minReplicas: 2 is more than maxReplicas, 1' "${least[@]}" --set api.autoscaling.enabled=true,api.autoscaling.maxReplicas=1
refused 'trigger.keda.minReplicas: 11 is more than maxReplicas, 10' "${least[@]}" --set trigger.keda.enabled=true,trigger.keda.minReplicas=11
refused 'executor.terminationGracePeriodSeconds: 30 is not more than a drain of 0s' "${least[@]}" --set executor.terminationGracePeriodSeconds=30
refused 'api.terminationGracePeriodSeconds: 40 .* use at least 41' "${least[@]}" --set defaults.terminationGracePeriodSeconds=40
refused 'shutdownGrace, 27.5s each, and 5 s for recording; use at least 66' "${least[@]}" --set settings.shutdownGrace=27.5s
refused 'a drain of 30s, two stages' "${least[@]}" --set extraEnv.CARILLON_SHUTDOWN_DRAIN=30s
refused 'settings.retention: 1h is less than 24h' "${least[@]}" --set settings.retention=1h
refused 'auth.oidc.session: 900h is more than 744h' "${least[@]}" --set auth.oidc.session=900h
for interval in 4s 4999ms 31s 1m; do
  refused "metrics.serviceMonitor.interval: $interval is not 5s to 30s" "${least[@]}" --set "metrics.serviceMonitor.enabled=true,metrics.serviceMonitor.interval=$interval"
done
for limit in 512MB 1e 1e9Mi .Mi 1ki -1Gi; do
  refused "api.resources.limits.memory: the chart cannot read $limit" "${least[@]}" --set "api.resources.limits.memory=$limit"
done
refused '/settings/zone' "${least[@]}" --set 'settings.zone=Nowhere City'
refused 'scheduler.podDisruptionBudget.maxUnavailable: with 0 no node' "${least[@]}" --set scheduler.podDisruptionBudget.maxUnavailable=0
refused 'podDisruptionBudget.maxUnavailable: with 0% no node' "${least[@]}" --set defaults.podDisruptionBudget.maxUnavailable=0%
refused 'ingress.page: routes a page' "${least[@]}" --set 'settings.page=false,ingress.enabled=true,ingress.page=true,ingress.hosts={timers.example.com}'
refused 'gateway.page: routes a page' "${least[@]}" --set 'settings.page=false,gateway.enabled=true,gateway.page=true,gateway.parentRefs[0].name=public'
refused 'networkPolicy.callbacksTo: without effect' "${least[@]}" --set 'networkPolicy.enabled=true,networkPolicy.callbacksTo[0].ports[0].port=443'
refused 'networkPolicy.metricsFrom: is empty' "${least[@]}" --set networkPolicy.enabled=true,metrics.serviceMonitor.enabled=true
refused 'extraEnv.CARILLON_ENCRYPTION_KEYS: given together with CARILLON_ENCRYPTION_KEYS_FILE' "${least[@]}" --set extraEnv.CARILLON_ENCRYPTION_KEYS=mine
refused 'extraEnv.CARILLON_HTTP_ADDR: :9090 is not :8080' "${least[@]}" --set extraEnv.CARILLON_HTTP_ADDR=:9090
refused 'extraEnv.CARILLON_ADMIN_ADDR: 127.0.0.1:8081 is not :8081' "${least[@]}" --set extraEnv.CARILLON_ADMIN_ADDR=127.0.0.1:8081
refused 'api.autoscaling: by CPU' "${least[@]}" --set api.autoscaling.enabled=true,defaults.resources.requests=null
refused 'executor.autoscaling: by CPU' "${least[@]}" --set defaults.autoscaling.enabled=true,executor.resources.requests.cpu=null,defaults.resources.requests.cpu=null,defaults.resources.limits.cpu=1,executor.resources.limits=null,defaults.resources.limits=null,api.resources.limits.cpu=1,migrator.resources.limits.cpu=1,scheduler.resources.limits.cpu=1,trigger.resources.limits.cpu=1
for label in name instance component; do
  for from in defaults executor; do
    refused "podLabels: app.kubernetes.io/$label is a label by which" "${least[@]}" --set "$from.podLabels.app\\.kubernetes\\.io/$label=mine"
  done
done
refused 'setup.podLabels: app.kubernetes.io/component' "${least[@]}" --set 'setup.podLabels.app\.kubernetes\.io/component=mine'
refused 'test.podLabels: app.kubernetes.io/component' "${least[@]}" --set 'test.podLabels.app\.kubernetes\.io/component=mine'
own=(--set redis.addrs={redis:6379},pulsar.url=pulsar://pulsar:6650,pulsar.adminUrl=http://pulsar:8080,existingSecret=mine)
refused 'mysql.dsn: without effect together with existingSecret' "${own[@]}" --set 'mysql.dsn=carillon:pw@tcp(mysql:3306)/carillon'
refused 'redis.password: without effect .* CARILLON_REDIS_PASSWORD' "${own[@]}" --set redis.password=pw
refused 'pulsar.token: without effect .* CARILLON_PULSAR_TOKEN' "${own[@]}" --set pulsar.token=pw
refused 'image.registry: https://registry.example.com has a scheme' "${least[@]}" --set image.registry=https://registry.example.com
refused 'fullnameOverride: "My_Timers" names no Service' "${least[@]}" --set fullnameOverride=My_Timers
refused 'nameOverride, or the release.s name: "carillon-My_Timers" names no Service' "${least[@]}" --set nameOverride=My_Timers
refused 'nameOverride: "timers!" is no label' "${least[@]}" --set nameOverride=timers!,fullnameOverride=timers
refused 'existingSecret: "My_Secret" is no name of a Secret' "${own[@]}" --set existingSecret=My_Secret
refused 'mysql.tls.caSecret.name: "My_Secret" is no name of a Secret' "${least[@]}" --set mysql.tls.enabled=true,mysql.tls.caSecret.name=My_Secret
refused 'mysql.dsn: is a URL; write' "${least[@]}" --set mysql.dsn=mysql://carillon:pw@mysql:3306/carillon
for url in pulsar://pulsar:6650 pulsar+ssl://PULSAR.:6650/; do
  refused "settings.callbackPulsarUrls: $url is the deployment's own" "${least[@]}" --set "settings.callbackPulsarUrls={$url}"
done
refused "pulsar://b:6650 is the deployment's own" "${least[@]}" --set 'pulsar.url=pulsar://a:6650\,b:6650,settings.callbackPulsarUrls={pulsar://b:6650}'
for urls in pulsar://A=pulsar://a:6650 pulsar+ssl://a.=pulsar+ssl://a:6651 pulsar://[fd00::1]=pulsar://[fd00::1]:6650; do
  refused "is the deployment's own" "${least[@]}" --set "pulsar.url=${urls%=*},settings.callbackPulsarUrls[0]=${urls#*=}"
done
for service in api migrator scheduler trigger executor; do
  refused "$service: is null, and every service is needed" "${least[@]}" --set $service=null
done
for value in image mysql redis pulsar auth encryption settings defaults service setup networkPolicy serviceAccount metrics test developmentServers; do
  refused "missing propert.* '$value'" "${least[@]}" --set $value=null
done
refused 'api.extraVolumes: a volume with the name files exists' "${least[@]}" --set defaults.extraVolumes[0].name=files,defaults.extraVolumes[0].emptyDir.medium=Memory
refused 'executor.extraVolumeMounts: other is none of its extraVolumes' "${least[@]}" --set executor.extraVolumeMounts[0].name=other,executor.extraVolumeMounts[0].mountPath=/x
mine=executor.extraVolumes[0].name=mine,executor.extraVolumes[0].secret.secretName=mine,executor.extraVolumeMounts[0].name=mine
refused "executor.extraVolumeMounts: the chart's own files are in /etc/carillon/mine" "${least[@]}" --set "$mine,executor.extraVolumeMounts[0].mountPath=/etc/carillon/mine"
refused '/executor/extraVolumeMounts/0' "${least[@]}" --set "$mine"
refused 'executor.extraVolumeMounts: two have the mountPath /x' "${least[@]}" --set "$mine,executor.extraVolumeMounts[0].mountPath=/x,executor.extraVolumeMounts[1].name=mine,executor.extraVolumeMounts[1].mountPath=/x"

# taken ARGUMENT…: checks that the chart renders with what resembles values that it refuses.
taken() { said=$(render "$@" 2>&1) || complain "the chart refuses $*: $said"; }
taken "${least[@]}" --set 'extraEnv.CARILLON_HTTP_ADDR=0.0.0.0:8080,extraEnv.CARILLON_ADMIN_ADDR=[::]:8081'
taken "${least[@]}" --set networkPolicy.enabled=true,metrics.prometheusRule.enabled=true
taken "${least[@]}" --set metrics.serviceMonitor.enabled=true
taken "${least[@]}" --set metrics.serviceMonitor.enabled=true,metrics.serviceMonitor.interval=5s
taken "${least[@]}" --set metrics.serviceMonitor.enabled=true,metrics.serviceMonitor.interval=30s
taken "${least[@]}" --set metrics.serviceMonitor.interval=1m
taken "${least[@]}" --set defaults.autoscaling.enabled=true
taken "${least[@]}" --set api.autoscaling.enabled=true,defaults.resources.requests=null,api.resources.limits.cpu=2
taken "${least[@]}" --set defaults.resources.requests=null
taken "${own[@]}" --set redis.username=carillon
taken "${own[@]}" --set existingSecret=team.servers-1
taken "${least[@]}" --set image.registry=registry.example.com:5000/team
taken "${least[@]}" --set fullnameOverride=timers-1
taken "${least[@]}" --set nameOverride=My_Timers,fullnameOverride=timers
for dsn in 'mysql:secret@tcp(mysql:3306)/carillon' 'mysql://pw@tcp(mysql:3306)/carillon' 'u:a://b@tcp(a:3306\,b:3306)/d?parseTime=true'; do
  taken "${least[@]}" --set "mysql.dsn=$dsn"
done
taken "${least[@]}" --set 'settings.callbackPulsarUrls={pulsar://pulsar:6651,pulsar://pulsar.other:6650}'
taken "${least[@]}" --set 'pulsar.url=pulsar://a,settings.callbackPulsarUrls={pulsar://a:6651}'
taken "${least[@]}" --set executor.replicas=0,extraEnv=null,extraEnvFrom=null,ingress=null,gateway=null,tracing=null
taken "${least[@]}" --set migrator.extraVolumes[0].name=mine,migrator.extraVolumes[0].secret.secretName=mine,migrator.extraVolumeMounts[0].name=mine,migrator.extraVolumeMounts[0].mountPath=/etc/carillon
taken "${least[@]}" --set executor.extraVolumes[0].name=scratch,executor.extraVolumeMounts[0].name=scratch,executor.extraVolumeMounts[0].mountPath=/tmp

# The notes tell of callbacks that the network policies block, and only of these. helm prints notes
# only with a cluster, so a copy of the chart has them as an object.
copy=$(mktemp -d)
cp -r helm/carillon/. "$copy"
{
  echo '{{- define "notes" }}'
  cat helm/carillon/templates/NOTES.txt
  echo '{{- end }}'
} >"$copy/templates/_notes.tpl"
printf '%s\n' 'apiVersion: v1' 'kind: ConfigMap' 'metadata: {name: notes}' 'data: {notes: {{ include "notes" . | quote }}}' >"$copy/templates/notes.yaml"
servers='networkPolicy.enabled=true,networkPolicy.serversTo[0].to[0].ipBlock.cidr=10.0.0.0/8'
for values in "$servers=1" "$servers,networkPolicy.callbacksTo[0].ports[0].port=443=0" networkPolicy.enabled=true=0; do
  have=$(helm template carillon "$copy" --kube-version 1.31.0 "${least[@]}" -s templates/notes.yaml --set "${values%=*}" |
    grep -c 'NOTE: networkPolicy.callbacksTo' || true)
  [ "$have" = "${values##*=}" ] || complain "the notes tell $have times of blocked callbacks with ${values%=*}"
done
# They tell how many connections MySQL needs.
for values in defaults.replicas=2=360 settings.mysqlConnections=8=200 api.autoscaling.enabled=true,scheduler.replicas=0=432 trigger.keda.enabled=true,trigger.keda.maxReplicas=4=396; do
  have=$(helm template carillon "$copy" --kube-version 1.31.0 "${least[@]}" -s templates/notes.yaml --set "${values%=*}" | sed -n 's/.*this release \([0-9]*\) connections.*/\1/p')
  [ "$have" = "${values##*=}" ] || complain "the notes tell of $have connections with ${values%=*}"
done
rm -r "$copy"
