{{/*
Refuses values that render and cannot work: pods that do not start, objects without effect, nodes that
cannot be drained. What concerns one value only is in values.schema.json, unless that needs a duration.
*/}}
{{- define "carillon.checkValues" -}}
{{- $root := . -}}
{{- include "carillon.checkDurations" . -}}
{{- range $service := include "carillon.services" . | fromYamlArray -}}
{{- include "carillon.checkService" (dict "root" $root "service" $service) -}}
{{- end -}}
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
{{- if and $v.networkPolicy.enabled $v.networkPolicy.callbacksTo (not $v.networkPolicy.serversTo) -}}
{{- fail "networkPolicy.callbacksTo: without effect unless networkPolicy.serversTo has the rules for the servers; give both or none" -}}
{{- end -}}
{{- end -}}

{{/* The bounds that the programs check when they start (libs/config). deploy/check-chart.sh compares. */}}
{{- define "carillon.checkDurations" -}}
{{- range list
  (list "settings.expandAhead" .Values.settings.expandAhead "10s" "24h")
  (list "settings.dispatchLead" .Values.settings.dispatchLead "1s" "10s")
  (list "settings.retention" .Values.settings.retention "24h" "")
  (list "settings.auditRetention" .Values.settings.auditRetention "1h" "")
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
{{- with $of.podDisruptionBudget -}}
{{- if and .enabled (regexMatch "^0+%?$" (toString .maxUnavailable)) -}}
{{- fail (printf "%s.podDisruptionBudget.maxUnavailable: with %v no node of its pods can be drained; use 1 or more, or enabled=false" $service .maxUnavailable) -}}
{{- end -}}
{{- end -}}
{{- $applied := include "carillon.applied" .root | fromYaml -}}
{{- $grace := $applied.CARILLON_SHUTDOWN_GRACE -}}
{{- $drain := $applied.CARILLON_SHUTDOWN_DRAIN | default (ternary (include "carillon.apiDrain" .root) "0s" (eq $service "api")) -}}
{{- $stop := addf (include "carillon.milliseconds" $drain | float64) (mulf 2 (include "carillon.milliseconds" $grace | float64)) -}}
{{- if le (mulf $of.terminationGracePeriodSeconds 1000) $stop -}}
{{- fail (printf "%s.terminationGracePeriodSeconds: %d is not more than a drain of %s and two stages of settings.shutdownGrace, %s each; use at least %d, or lower shutdownGrace" $service (int $of.terminationGracePeriodSeconds) $drain $grace (add (floor (divf $stop 1000)) 1)) -}}
{{- end -}}
{{- end -}}

{{/*
Refuses a variable of extraEnv beside the file that the chart sets for the same: the programs take only
one of the two.
*/}}
{{- define "carillon.checkExtraEnv" -}}
{{- $extra := .Values.extraEnv | default dict -}}
{{- range include "carillon.files" (dict "root" . "service" "api") | fromYamlArray -}}
{{- $text := trimSuffix "_FILE" .variable -}}
{{- if and (ne $text .variable) (hasKey $extra $text) (not (hasKey $extra .variable)) -}}
{{- fail (printf "extraEnv.%s: given together with %s, which the chart sets; use the chart's value or Secret, or set extraEnv.%s to \"\"" $text .variable .variable) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/*
A duration in milliseconds, as a number: "1m30.5s" is 90500, and "0" and "0s" are 0. Texts
that are no duration are 0 too; the schema or the programs refuse those.
*/}}
{{- define "carillon.milliseconds" -}}
{{- $factors := dict "ms" 1.0 "s" 1000.0 "m" 60000.0 "h" 3600000.0 -}}
{{- $sum := 0.0 -}}
{{- range regexFindAll "[0-9]+([.][0-9]+)?(ms|s|m|h)" (toString .) -1 -}}
{{- $unit := regexFind "[a-z]+$" . -}}
{{- $sum = addf $sum (mulf (trimSuffix $unit . | float64) (index $factors $unit)) -}}
{{- end -}}
{{- printf "%.3f" $sum -}}
{{- end -}}
