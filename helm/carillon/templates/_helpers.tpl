{{- define "carillon.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{/* Prefix of every object's name. It leaves room for "-scheduler-admin". */}}
{{- define "carillon.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else if contains (include "carillon.name" .) .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "carillon.name" .) | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "carillon.selector" -}}
app.kubernetes.io/name: {{ include "carillon.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "carillon.labels" -}}
{{ include "carillon.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "carillon.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "carillon.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{/* The image of a program: (dict "root" $ "program" "api"); the command line tool is "". */}}
{{- define "carillon.image" -}}
{{- $image := .root.Values.image -}}
{{- $name := ternary "carillon" (printf "carillon-%s" .program) (empty .program) -}}
{{- $tag := default .root.Chart.AppVersion $image.tag -}}
{{- with $image.registry }}{{ trimSuffix "/" . }}/{{ end }}{{ $name }}:{{ $tag -}}
{{- end -}}

{{/* The configured servers, or the development servers. */}}
{{- define "carillon.servers" -}}
{{- $name := include "carillon.fullname" . -}}
{{- if .Values.developmentServers.enabled -}}
dsn: carillon:carillon@tcp({{ $name }}-dev-mysql:3306)/carillon
redisAddrs: {{ $name }}-dev-redis:6379
pulsarUrl: pulsar://{{ $name }}-dev-pulsar:6650
pulsarAdminUrl: http://{{ $name }}-dev-pulsar:8080
{{- else -}}
dsn: {{ .Values.mysql.dsn | quote }}
redisAddrs: {{ join "," .Values.redis.addrs | quote }}
pulsarUrl: {{ .Values.pulsar.url | quote }}
pulsarAdminUrl: {{ .Values.pulsar.adminUrl | quote }}
{{- end -}}
{{- end -}}

{{/* The settings that are not secret. */}}
{{- define "carillon.settings" -}}
{{- $v := .Values -}}
{{- $servers := include "carillon.servers" . | fromYaml -}}
CARILLON_HTTP_ADDR: ":8080"
CARILLON_ADMIN_ADDR: ":8081"
CARILLON_LOG_FORMAT: json
CARILLON_LOG_LEVEL: {{ $v.settings.logLevel | quote }}
CARILLON_REDIS_ADDRS: {{ required "redis.addrs: at least one host:port" $servers.redisAddrs | quote }}
{{- range $server := list "mysql" "redis" }}
{{- if (index $v $server).tls.enabled }}
CARILLON_{{ upper $server }}_TLS: "true"
{{- end }}
{{- end }}
CARILLON_REDIS_PREFIX: {{ $v.redis.prefix | quote }}
{{- with $v.redis.username }}
CARILLON_REDIS_USERNAME: {{ . | quote }}
{{- end }}
CARILLON_PULSAR_URL: {{ required "pulsar.url: pulsar://host:6650" $servers.pulsarUrl | quote }}
CARILLON_PULSAR_ADMIN_URL: {{ required "pulsar.adminUrl: http://host:8080" $servers.pulsarAdminUrl | quote }}
CARILLON_PULSAR_TENANT: {{ $v.pulsar.tenant | quote }}
CARILLON_PULSAR_NAMESPACE: {{ $v.pulsar.namespace | quote }}
{{- with $v.pulsar.oauth2 }}
{{- if .issuer }}
CARILLON_PULSAR_OAUTH2_ISSUER: {{ .issuer | quote }}
CARILLON_PULSAR_OAUTH2_AUDIENCE: {{ .audience | quote }}
CARILLON_PULSAR_OAUTH2_SCOPES: {{ join "," .scopes | quote }}
{{- end }}
{{- end }}
CARILLON_EXPAND_AHEAD: {{ $v.settings.expandAhead | quote }}
CARILLON_DISPATCH_LEAD: {{ $v.settings.dispatchLead | quote }}
CARILLON_EXECUTOR_CALLS: {{ $v.settings.executorCalls | int | quote }}
CARILLON_EXECUTOR_INFLIGHT: {{ $v.settings.executorInflight | int | quote }}
CARILLON_MYSQL_CONNECTIONS: {{ $v.settings.mysqlConnections | int | quote }}
CARILLON_PULSAR_PARTITIONS: {{ $v.settings.pulsarPartitions | int | quote }}
CARILLON_RETENTION: {{ $v.settings.retention | quote }}
CARILLON_AUDIT_RETENTION: {{ $v.settings.auditRetention | quote }}
CARILLON_CANARY: {{ $v.settings.canary | quote }}
CARILLON_ZONE: {{ $v.settings.zone | quote }}
CARILLON_PAGE: {{ $v.settings.page | quote }}
CARILLON_AUTH: {{ ternary "on" "off" $v.auth.enabled | quote }}
{{- with $v.auth.trustHeader }}
CARILLON_TRUST_HEADER: {{ . | quote }}
CARILLON_TRUST_FROM: {{ join "," $v.auth.trustFrom | quote }}
{{- end }}
{{- with $v.auth.oidc }}
{{- if .issuer }}
CARILLON_OIDC_ISSUER: {{ .issuer | quote }}
CARILLON_OIDC_CLIENT_ID: {{ .clientID | quote }}
CARILLON_OIDC_REDIRECT_URL: {{ .redirectURL | quote }}
CARILLON_OIDC_AUDIENCE: {{ .audience | quote }}
CARILLON_OIDC_SCOPES: {{ join "," .scopes | quote }}
CARILLON_OIDC_GROUPS_CLAIM: {{ .groupsClaim | quote }}
CARILLON_OIDC_ROLES: {{ join "," .roles | quote }}
CARILLON_OIDC_SESSION: {{ .session | quote }}
CARILLON_OIDC_SESSIONS_SINCE: {{ .sessionsSince | quote }}
{{- end }}
{{- end }}
CARILLON_CALLBACK_ALLOW_PRIVATE: {{ $v.settings.callbackAllowPrivate | quote }}
CARILLON_CALLBACK_ALLOW: {{ join "," $v.settings.callbackAllow | quote }}
CARILLON_CALLBACK_ALLOW_INSECURE: {{ $v.settings.callbackAllowInsecure | quote }}
CARILLON_CALLBACK_TOPICS: {{ join "," $v.settings.callbackTopics | quote }}
CARILLON_CALLBACK_PULSAR_URLS: {{ join "," $v.settings.callbackPulsarUrls | quote }}
CARILLON_SHUTDOWN_GRACE: {{ $v.settings.shutdownGrace | quote }}
{{- with $v.tracing }}
{{- if .endpoint }}
OTEL_EXPORTER_OTLP_ENDPOINT: {{ .endpoint | quote }}
OTEL_EXPORTER_OTLP_PROTOCOL: {{ .protocol | quote }}
OTEL_TRACES_SAMPLER: {{ .sampler | quote }}
OTEL_TRACES_SAMPLER_ARG: {{ .ratio | quote }}
CARILLON_TRACE_KEEP: {{ join "," .keep | quote }}
{{- end }}
{{- end }}
{{- end -}}

{{/* The settings that apply, whether of the values or of extraEnv, for templates that depend on one. */}}
{{- define "carillon.applied" -}}
{{- $env := include "carillon.settings" . | fromYaml -}}
{{- range $name, $value := .Values.extraEnv }}{{ $_ := set $env $name (toString $value) }}{{ end -}}
{{- toYaml $env -}}
{{- end -}}

{{/*
The variables of a container: (dict "root" $ "service" "api" "secret" NAME "resources" RESOURCES), a list
of env. NAME is the chart's Secret. The settings are not in a ConfigMap, because a pod reads that when its
container starts: during an upgrade, a container of the old release that starts again would find the new
release's variables, and refuse those that it does not know. For the same reason only single keys are
taken of the Secret: such a container reads them anew, and starts without those that the new release does
not need. Kubernetes prefers these variables to envFrom. extraEnv replaces what the chart would set.
Kubernetes expands $(NAME); "$$" stands for "$", so values mean what is written.
*/}}
{{- define "carillon.variables" -}}
{{- $extra := .root.Values.extraEnv | default dict -}}
{{- $own := list -}}
{{- range $name, $value := include "carillon.settings" .root | fromYaml -}}
{{- $own = append $own (dict "name" $name "value" (toString $value)) -}}
{{- end -}}
{{- if not .root.Values.existingSecret -}}
{{- $secret := .secret -}}
{{- range $name := include "carillon.secrets" .root | fromYaml | keys | sortAlpha -}}
{{- $ref := dict "name" $secret "key" $name -}}
{{- if ne $name "CARILLON_MYSQL_DSN" }}{{ $_ := set $ref "optional" true }}{{ end -}}
{{- $own = append $own (dict "name" $name "valueFrom" (dict "secretKeyRef" $ref)) -}}
{{- end -}}
{{- end -}}
{{- if eq .service "api" -}}
{{- $own = append $own (dict "name" "CARILLON_SHUTDOWN_DRAIN" "value" (include "carillon.apiDrain" .root)) -}}
{{- end -}}
{{- if not (hasKey $extra "GOMEMLIMIT") -}}
{{- with include "carillon.memoryLimit" . -}}
{{- $own = append $own (dict "name" "GOMEMLIMIT" "value" .) -}}
{{- end -}}
{{- end -}}
{{- range include "carillon.files" . | fromYamlArray -}}
{{- $own = append $own (dict "name" .variable "value" (printf "/etc/carillon/%s" .path)) -}}
{{- end -}}
{{- range $own }}
{{- if not (hasKey $extra .name) }}
{{- if hasKey . "value" }}{{ $_ := set . "value" (replace "$" "$$" .value) }}{{ end }}
- {{ toJson . }}
{{- end }}
{{- end }}
{{- range $name, $value := $extra }}
- {name: {{ $name | quote }}, value: {{ toString $value | replace "$" "$$" | quote }}}
{{- end }}
{{- end -}}

{{/* The sources of other variables, all of the user: the later overrides the earlier. */}}
{{- define "carillon.envFrom" -}}
{{- with .Values.existingSecret }}
- secretRef: {name: {{ . }}}
{{- end }}
{{- with .Values.extraEnvFrom }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/*
Nine tenths of a container's memory limit, in the format of GOMEMLIMIT: (dict "service" "api" "resources"
RESOURCES). Near it the program frees memory more often, instead of being killed at the limit. Empty
without a limit, and for one of less than a KiB, such as 0. It reads the quantities of Kubernetes.
*/}}
{{- define "carillon.memoryLimit" -}}
{{- $limit := ((.resources | default dict).limits | default dict).memory -}}
{{- if $limit -}}
{{- $text := ternary (toString $limit) (printf "%.0f" (float64 $limit)) (kindIs "string" $limit) -}}
{{- if not (regexMatch "^[+]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]+|[numkMGTPE]|[KMGTPE]i)?$" $text) -}}
{{- fail (printf "%s.resources.limits.memory: the chart cannot read %s; write it as 512Mi, 1Gi or a number of bytes" .service $text) -}}
{{- end -}}
{{- $factors := dict "" 1 "n" 1e-9 "u" 1e-6 "m" 1e-3 "k" 1e3 "M" 1e6 "G" 1e9 "T" 1e12 "P" 1e15 "E" 1e18
  "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776 "Pi" 1125899906842624 "Ei" 1152921504606846976 -}}
{{- $unit := regexFind "[A-Za-z]*$" $text -}}
{{- $own := divf (mulf (trimSuffix $unit $text | float64) (index $factors $unit | float64) 0.9) 1024 | floor | int64 -}}
{{- if gt $own 0 }}{{ printf "%dKiB" $own }}{{ end -}}
{{- end -}}
{{- end -}}

{{/* How long a stopping api takes requests: longer than a cluster needs to remove its pod from the Service. */}}
{{- define "carillon.apiDrain" -}}5s{{- end -}}

{{- define "carillon.secrets" -}}
CARILLON_MYSQL_DSN: {{ required "mysql.dsn, or existingSecret: user:password@tcp(host:3306)/database" (include "carillon.servers" . | fromYaml).dsn | quote }}
{{- with .Values.redis.password }}
CARILLON_REDIS_PASSWORD: {{ . | quote }}
{{- end }}
{{- with .Values.pulsar.token }}
CARILLON_PULSAR_TOKEN: {{ . | quote }}
{{- end }}
{{- end -}}

{{- define "carillon.podSecurity" -}}
runAsNonRoot: true
{{- with .Values.podSecurityContext }}
{{ toYaml . }}
{{- end }}
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "carillon.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{/* The services, and the values of each: its own ones override the defaults. */}}
{{- define "carillon.services" -}}
[api, migrator, scheduler, trigger, executor]
{{- end -}}

{{- define "carillon.of" -}}
{{- if not (kindIs "map" (index .root.Values .service)) -}}
{{- fail (printf "%s: is null, and every service is needed; use {} for the defaults, or replicas=0 for no pods" .service) -}}
{{- end -}}
{{- $of := mustMergeOverwrite (deepCopy .root.Values.defaults) (deepCopy (index .root.Values .service)) -}}
{{- if and $of.keda.enabled (not (has .service (list "trigger" "executor"))) -}}
{{- if hasKey (index .root.Values .service) "keda" -}}
{{- fail (printf "%s.keda: only the trigger and the executor read topics; use autoscaling" .service) -}}
{{- end -}}
{{- $_ := set $of.keda "enabled" false -}}
{{- end -}}
{{- if and $of.keda.enabled $of.autoscaling.enabled -}}
{{- fail (printf "%s: keda and autoscaling would both set the replicas; enable one" .service) -}}
{{- end -}}
{{- toYaml $of -}}
{{- end -}}

{{/*
The values of the pod of a hook, setup or test: (dict "root" $ "hook" "setup"). Its own ones override
the defaults, and an empty one takes nothing of them.
*/}}
{{- define "carillon.ofHook" -}}
{{- $of := dict -}}
{{- $own := index .root.Values .hook -}}
{{- $defaults := .root.Values.defaults -}}
{{- range $name := list "podAnnotations" "podLabels" "nodeSelector" "tolerations" "affinity" "priorityClassName" "extraVolumes" "extraVolumeMounts" -}}
{{- if or (not (hasKey $own $name)) (and (index $own $name) (kindIs "map" (index $own $name))) -}}
{{- $of = mustMergeOverwrite $of (deepCopy (pick $defaults $name)) -}}
{{- end -}}
{{- $of = mustMergeOverwrite $of (deepCopy (pick $own $name)) -}}
{{- end -}}
{{- toYaml $of -}}
{{- end -}}

{{/* Where the pod of a hook runs, of the values of carillon.ofHook. */}}
{{- define "carillon.placement" -}}
{{- range $name := list "priorityClassName" "nodeSelector" "affinity" "tolerations" -}}
{{- with index $ $name }}
{{ toYaml (dict $name .) }}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The volumes of a pod, and where its container has them: (dict "files" (carillon.files) "of" (carillon.of)). */}}
{{- define "carillon.volumes" -}}
{{- with .files }}
{{- include "carillon.filesVolume" . }}
{{- end }}
{{- with .of.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "carillon.mounts" -}}
{{- if .files -}}
- {name: files, mountPath: /etc/carillon, readOnly: true}
{{- end }}
{{- with .of.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* The labels of objects that belong to a service: (dict "root" $ "service" "api"). */}}
{{- define "carillon.serviceLabels" -}}
{{ include "carillon.labels" .root }}
app.kubernetes.io/component: {{ .service }}
{{- end -}}

{{- define "carillon.serviceSelector" -}}
{{ include "carillon.selector" .root }}
app.kubernetes.io/component: {{ .service }}
{{- end -}}
