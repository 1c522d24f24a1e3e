{{/*
Refuses values that render and cannot work: pods that do not start, objects without effect, nodes that
cannot be drained. What concerns one value only is in values.schema.json, unless that needs a duration.
*/}}
{{- define "carillon.checkValues" -}}
{{- $root := . -}}
{{- include "carillon.checkNames" . -}}
{{- include "carillon.checkServers" . -}}
{{- include "carillon.checkDurations" . -}}
{{- range $service := include "carillon.services" . | fromYamlArray -}}
{{- include "carillon.checkService" (dict "root" $root "service" $service) -}}
{{- end -}}
{{- include "carillon.checkPod" (dict "root" $root "from" "setup" "of" (include "carillon.ofHook" (dict "root" $root "hook" "setup") | fromYaml)) -}}
{{- include "carillon.checkPod" (dict "root" $root "from" "test" "of" (include "carillon.ofHook" (dict "root" $root "hook" "test") | fromYaml)) -}}
{{- include "carillon.checkExtraEnv" . -}}
{{- $v := .Values -}}
{{- range $way := list "ingress" "gateway" -}}
{{- with index $v $way -}}
{{- if and .enabled .page (not $v.settings.page) -}}
{{- fail (printf "%s.page: routes a page that settings.page=false switches off; change one of the two" $way) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range $v.settings.callbackTopics -}}
{{- if regexMatch "^(persistent://)?pulsar/" . -}}
{{- fail (printf "settings.callbackTopics: %s is in Pulsar's own tenant, where no timer may publish; remove it" .) -}}
{{- end -}}
{{- end -}}
{{- if and $v.networkPolicy.enabled $v.metrics.serviceMonitor.enabled (not $v.networkPolicy.metricsFrom) -}}
{{- fail "networkPolicy.metricsFrom: is empty, so Prometheus cannot read what metrics.serviceMonitor tells it to; name its pods, such as {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: monitoring}}}" -}}
{{- end -}}
{{- if and $v.networkPolicy.enabled $v.networkPolicy.callbacksTo (not $v.networkPolicy.serversTo) -}}
{{- fail "networkPolicy.callbacksTo: without effect unless networkPolicy.serversTo has the rules for the servers; give both or none" -}}
{{- end -}}
{{- end -}}

{{/* Refuses names that Kubernetes refuses. */}}
{{- define "carillon.checkNames" -}}
{{- $v := .Values -}}
{{- if contains "://" $v.image.registry -}}
{{- fail (printf "image.registry: %s has a scheme, which names of images have not; remove what ends with ://" $v.image.registry) -}}
{{- end -}}
{{- /* Services have it as the start of theirs. */ -}}
{{- $name := include "carillon.fullname" . -}}
{{- if not (regexMatch "^[a-z]([a-z0-9-]*[a-z0-9])?$" $name) -}}
{{- $way := ternary "fullnameOverride" (ternary "nameOverride, or the release's name" "the release's name" (not (empty $v.nameOverride))) (not (empty $v.fullnameOverride)) -}}
{{- fail (printf "%s: %q names no Service in Kubernetes; set fullnameOverride to small letters, digits and hyphens, a letter first" $way $name) -}}
{{- end -}}
{{- if not (regexMatch "^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$" (include "carillon.name" .)) -}}
{{- fail (printf "nameOverride: %q is no label in Kubernetes; use letters, digits and hyphens" $v.nameOverride) -}}
{{- end -}}
{{- $secrets := dict
  "existingSecret" $v.existingSecret
  "apiKeysSecret" $v.apiKeysSecret
  "auth.adminKeySecret.name" $v.auth.adminKeySecret.name
  "auth.oidc.clientSecret.name" $v.auth.oidc.clientSecret.name
  "encryption.keysSecret.name" $v.encryption.keysSecret.name
  "pulsar.oauth2.keySecret.name" $v.pulsar.oauth2.keySecret.name
  "service.certSecret" $v.service.certSecret
  "test.keySecret.name" $v.test.keySecret.name
  "test.caSecret.name" $v.test.caSecret.name -}}
{{- range $server := list "mysql" "redis" "pulsar" -}}
{{- $tls := (index $v $server).tls -}}
{{- $_ := set $secrets (printf "%s.tls.caSecret.name" $server) $tls.caSecret.name -}}
{{- $_ := set $secrets (printf "%s.tls.certSecret" $server) $tls.certSecret -}}
{{- end -}}
{{- range $value, $name := $secrets -}}
{{- if and $name (not (regexMatch "^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$" $name)) -}}
{{- fail (printf "%s: %q is no name of a Secret in Kubernetes; it has small letters, digits, hyphens and dots" $value $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Refuses contradictory values of the servers. The messages show no password. */}}
{{- define "carillon.checkServers" -}}
{{- $v := .Values -}}
{{- /* They have no login but the chart's own, and a Secret may name other servers. */ -}}
{{- if $v.developmentServers.enabled -}}
{{- range $value, $it := dict
  "existingSecret" $v.existingSecret
  "redis.username" $v.redis.username
  "redis.password" $v.redis.password
  "pulsar.token" $v.pulsar.token
  "pulsar.oauth2.issuer" $v.pulsar.oauth2.issuer -}}
{{- if $it -}}
{{- fail (printf "%s: given together with developmentServers.enabled, whose servers have logins of their own; leave it empty, or set developmentServers.enabled=false to use your servers" $value) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if $v.existingSecret -}}
{{- range $value, $it := dict
  "mysql.dsn" (list $v.mysql.dsn "CARILLON_MYSQL_DSN")
  "redis.password" (list $v.redis.password "CARILLON_REDIS_PASSWORD")
  "pulsar.token" (list $v.pulsar.token "CARILLON_PULSAR_TOKEN") -}}
{{- if index $it 0 -}}
{{- fail (printf "%s: without effect together with existingSecret; put it into that Secret as %s and leave the value empty" $value (index $it 1)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- /* "mysql" may also be a user, before a network and its address. */ -}}
{{- if and (regexMatch "^[a-z]+://" $v.mysql.dsn) (not (regexMatch "@[a-z]*[(][^@]*$" $v.mysql.dsn)) -}}
{{- fail "mysql.dsn: is a URL; write it as user:password@tcp(host:3306)/database" -}}
{{- end -}}
{{- $own := list -}}
{{- range include "carillon.hosts" (include "carillon.applied" . | fromYaml).CARILLON_PULSAR_URL | splitList "," -}}
{{- $own = append $own . -}}
{{- end -}}
{{- range $v.settings.callbackPulsarUrls -}}
{{- if has (include "carillon.hosts" .) $own -}}
{{- fail (printf "settings.callbackPulsarUrls: %s is the deployment's own Pulsar (pulsar.url), and would open all its topics; leave it out, and list topics in settings.callbackTopics" .) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The hosts of a service URL of Pulsar in one form, each with its port, or with that of the scheme:
"pulsar://A,b.:6650/" is a:6650,b:6650. */}}
{{- define "carillon.hosts" -}}
{{- $port := ternary "6651" "6650" (hasPrefix "pulsar+ssl:" (lower .)) -}}
{{- $hosts := list -}}
{{- range regexReplaceAll "^[^/]*//([^/?#]*).*$" . "${1}" | lower | splitList "," -}}
{{- $host := regexReplaceAll "[.](:[0-9]+)?$" . "${1}" -}}
{{- $hosts = append $hosts (regexMatch ":[0-9]+$" $host | ternary $host (printf "%s:%s" $host $port)) -}}
{{- end -}}
{{- join "," $hosts -}}
{{- end -}}

{{/* The bounds that the programs check when they start (libs/config). deploy/check-chart.sh compares. */}}
{{- define "carillon.checkDurations" -}}
{{- range list
  (list "settings.expandAhead" .Values.settings.expandAhead "10s" "24h")
  (list "settings.dispatchLead" .Values.settings.dispatchLead "1s" "10s")
  (list "settings.retention" .Values.settings.retention "24h" "876000h")
  (list "settings.auditRetention" .Values.settings.auditRetention "1h" "876000h")
  (list "settings.canary" .Values.settings.canary "0s" "10m")
  (list "settings.shutdownGrace" .Values.settings.shutdownGrace "1s" "")
  (list "auth.oidc.session" .Values.auth.oidc.session "1m" "744h") -}}
{{- $name := index . 0 -}}
{{- $text := index . 1 -}}
{{- $is := include "carillon.milliseconds" $text | float64 -}}
{{- $least := index . 2 -}}
{{- /* The longest duration that the programs can read, in whole hours. */ -}}
{{- $most := index . 3 | default "2562047h" -}}
{{- if lt $is (include "carillon.milliseconds" $least | float64) -}}
{{- fail (printf "%s: %s is less than %s, with which the services do not start; raise it" $name $text $least) -}}
{{- end -}}
{{- if gt $is (include "carillon.milliseconds" $most | float64) -}}
{{- fail (printf "%s: %s is more than %s, with which the services do not start; lower it" $name $text $most) -}}
{{- end -}}
{{- end -}}
{{- with .Values.metrics.serviceMonitor -}}
{{- $is := include "carillon.milliseconds" .interval | float64 -}}
{{- if and .enabled (or (lt $is 5000.0) (gt $is 30000.0)) -}}
{{- fail (printf "metrics.serviceMonitor.interval: %s is not 5s to 30s, with which the alerts work; use 15s" .interval) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Refuses contradictory values of a service: (dict "root" $ "service" "api"). */}}
{{- define "carillon.checkService" -}}
{{- $service := .service -}}
{{- $of := include "carillon.of" . | fromYaml -}}
{{- range $scaler := list "autoscaling" "keda" -}}
{{- with index $of $scaler -}}
{{- if and .enabled (gt (int .minReplicas) (int .maxReplicas)) -}}
{{- fail (printf "%s.%s.minReplicas: %d is more than maxReplicas, %d; raise maxReplicas" $service $scaler (int .minReplicas) (int .maxReplicas)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- /* Kubernetes takes a limit as the request where there is none. */ -}}
{{- $resources := $of.resources | default dict -}}
{{- if and $of.autoscaling.enabled (not (or ($resources.requests | default dict).cpu ($resources.limits | default dict).cpu)) -}}
{{- fail (printf "%s.autoscaling: by CPU, of which %s.resources.requests has none to compare with; set resources.requests.cpu there or in defaults" $service $service) -}}
{{- end -}}
{{- include "carillon.checkPod" (dict "root" .root "from" $service "of" $of) -}}
{{- with $of.podDisruptionBudget -}}
{{- if and .enabled (regexMatch "^0+%?$" (toString .maxUnavailable)) -}}
{{- fail (printf "%s.podDisruptionBudget.maxUnavailable: with %v no node of its pods can be drained; use 1 or more, or enabled=false" $service .maxUnavailable) -}}
{{- end -}}
{{- end -}}
{{- $applied := include "carillon.applied" .root | fromYaml -}}
{{- $grace := $applied.CARILLON_SHUTDOWN_GRACE -}}
{{- $drain := $applied.CARILLON_SHUTDOWN_DRAIN | default (ternary (include "carillon.apiDrain" .root) "0s" (eq $service "api")) -}}
{{- $stop := addf (include "carillon.milliseconds" $drain | float64) (mulf 2 (include "carillon.milliseconds" $grace | float64)) 5000 -}}
{{- if le (mulf $of.terminationGracePeriodSeconds 1000) $stop -}}
{{- fail (printf "%s.terminationGracePeriodSeconds: %d is not more than a drain of %s, two stages of settings.shutdownGrace, %s each, and 5 s for recording; use at least %d, or lower shutdownGrace" $service (int $of.terminationGracePeriodSeconds) $drain $grace (add (floor (divf $stop 1000)) 1)) -}}
{{- end -}}
{{- end -}}

{{/* Refuses what a pod cannot have: (dict "root" $ "from" "api" "of" (carillon.of)). */}}
{{- define "carillon.checkPod" -}}
{{- $from := .from -}}
{{- $of := .of -}}
{{- $selector := include "carillon.serviceSelector" (dict "root" .root "service" $from) | fromYaml -}}
{{- range $label, $_ := $of.podLabels -}}
{{- if hasKey $selector $label -}}
{{- fail (printf "%s.podLabels: %s is a label by which the chart finds its pods; remove it there and in defaults" $from $label) -}}
{{- end -}}
{{- end -}}
{{- $files := include "carillon.files" (dict "root" .root "service" $from) | fromYamlArray -}}
{{- $volumes := list -}}
{{- range $of.extraVolumes -}}
{{- if has .name (append $volumes "files") -}}
{{- fail (printf "%s.extraVolumes: a volume with the name %s exists already; take another name" $from .name) -}}
{{- end -}}
{{- $volumes = append $volumes .name -}}
{{- end -}}
{{- $paths := list -}}
{{- range $of.extraVolumeMounts -}}
{{- if not (has .name $volumes) -}}
{{- fail (printf "%s.extraVolumeMounts: %s is none of its extraVolumes; a list of a service replaces that of defaults, so name all of them" $from .name) -}}
{{- end -}}
{{- if and $files (regexMatch "^/+etc/+carillon(/|$)" .mountPath) -}}
{{- fail (printf "%s.extraVolumeMounts: the chart's own files are in %s; take another mountPath" $from .mountPath) -}}
{{- end -}}
{{- if has .mountPath $paths -}}
{{- fail (printf "%s.extraVolumeMounts: two have the mountPath %s; change one" $from .mountPath) -}}
{{- end -}}
{{- $paths = append $paths .mountPath -}}
{{- end -}}
{{- end -}}

{{/*
Refuses a variable of extraEnv beside the file that the chart sets for the same: the programs take only
one of the two. Refuses other ports than those of the chart's Services and probes.
*/}}
{{- define "carillon.checkExtraEnv" -}}
{{- $extra := .Values.extraEnv | default dict -}}
{{- range $name, $port := dict "CARILLON_HTTP_ADDR" ":8080" "CARILLON_ADMIN_ADDR" ":8081" -}}
{{- if not (regexMatch (printf "^(0[.]0[.]0[.]0|\\[::\\])?%s$" $port) (index $extra $name | default $port)) -}}
{{- fail (printf "extraEnv.%s: %s is not %s, which the chart's Services and probes call; remove it, and set service.port for another port of the API" $name (index $extra $name) $port) -}}
{{- end -}}
{{- end -}}
{{- range include "carillon.files" (dict "root" . "service" "api") | fromYamlArray -}}
{{- $text := trimSuffix "_FILE" .variable -}}
{{- if and (ne $text .variable) (hasKey $extra $text) (not (hasKey $extra .variable)) -}}
{{- fail (printf "extraEnv.%s: given together with %s, which the chart sets; use the chart's value or Secret, or set extraEnv.%s to \"\"" $text .variable .variable) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/*
A duration in milliseconds, as a number: "1m30.5s" is 90500, "1d" is that of 24 hours, and "0" and
"0s" are 0. Texts that are no duration are 0 too; the schema or the programs refuse those.
*/}}
{{- define "carillon.milliseconds" -}}
{{- $factors := dict "ms" 1.0 "s" 1000.0 "m" 60000.0 "h" 3600000.0 "d" 86400000.0 -}}
{{- $sum := 0.0 -}}
{{- range regexFindAll "[0-9]+([.][0-9]+)?(ms|s|m|h|d)" (toString .) -1 -}}
{{- $unit := regexFind "[a-z]+$" . -}}
{{- $sum = addf $sum (mulf (trimSuffix $unit . | float64) (index $factors $unit)) -}}
{{- end -}}
{{- printf "%.3f" $sum -}}
{{- end -}}
