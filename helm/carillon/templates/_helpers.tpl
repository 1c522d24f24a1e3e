{{- define "carillon.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{/* The first part of every object's name; it leaves room for "-scheduler-admin". */}}
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

{{/* The settings that are no secret. */}}
{{- define "carillon.settings" -}}
{{- $v := .Values -}}
CARILLON_HTTP_ADDR: ":8080"
CARILLON_ADMIN_ADDR: ":8081"
CARILLON_LOG_FORMAT: json
CARILLON_LOG_LEVEL: {{ $v.settings.logLevel | quote }}
CARILLON_REDIS_ADDRS: {{ required "redis.addrs: at least one host:port" (join "," $v.redis.addrs) | quote }}
CARILLON_REDIS_PREFIX: {{ $v.redis.prefix | quote }}
{{- with $v.redis.username }}
CARILLON_REDIS_USERNAME: {{ . | quote }}
{{- end }}
CARILLON_PULSAR_URL: {{ required "pulsar.url: pulsar://host:6650" $v.pulsar.url | quote }}
CARILLON_PULSAR_ADMIN_URL: {{ required "pulsar.adminUrl: http://host:8080" $v.pulsar.adminUrl | quote }}
CARILLON_PULSAR_TENANT: {{ $v.pulsar.tenant | quote }}
CARILLON_PULSAR_NAMESPACE: {{ $v.pulsar.namespace | quote }}
CARILLON_STEP1: {{ $v.settings.step1 | quote }}
CARILLON_LEAD: {{ $v.settings.lead | quote }}
CARILLON_RETENTION: {{ $v.settings.retention | quote }}
CARILLON_CANARY: {{ $v.settings.canary | quote }}
CARILLON_ZONE: {{ $v.settings.zone | quote }}
CARILLON_CALLBACK_ALLOW_PRIVATE: {{ $v.settings.callbackAllowPrivate | quote }}
CARILLON_SHUTDOWN_GRACE: {{ $v.settings.shutdownGrace | quote }}
{{- end -}}

{{/* The same with extraEnv, which has the last word. */}}
{{- define "carillon.env" -}}
{{- $env := include "carillon.settings" . | fromYaml -}}
{{- range $name, $value := .Values.extraEnv }}{{ $_ := set $env $name (toString $value) }}{{ end -}}
{{- toYaml $env -}}
{{- end -}}

{{- define "carillon.secrets" -}}
CARILLON_MYSQL_DSN: {{ required "mysql.dsn, or existingSecret: user:password@tcp(host:3306)/database" .Values.mysql.dsn | quote }}
{{- with .Values.redis.password }}
CARILLON_REDIS_PASSWORD: {{ . | quote }}
{{- end }}
{{- with .Values.pulsar.token }}
CARILLON_PULSAR_TOKEN: {{ . | quote }}
{{- end }}
{{- end -}}

{{- define "carillon.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "carillon.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{/* The services, and what each has: defaults, overridden by its own. */}}
{{- define "carillon.services" -}}
[api, migrator, scheduler, trigger, executor]
{{- end -}}

{{- define "carillon.of" -}}
{{- mustMergeOverwrite (deepCopy .root.Values.defaults) (deepCopy (index .root.Values .service)) | toYaml -}}
{{- end -}}
