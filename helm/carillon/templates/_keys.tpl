{{/* The chart's Secret of keys: the admin key and encryption keys, unless the user's Secrets have them. */}}
{{- define "carillon.keysName" -}}
{{ include "carillon.fullname" . }}-root-keys
{{- end -}}

{{/* Refuses contradictory values of auth and encryption. Unlike the schema's messages, these show no key. */}}
{{- define "carillon.checkKeys" -}}
{{- $auth := .Values.auth -}}
{{- if and $auth.adminKey (not (regexMatch "^crl_[A-Za-z0-9]{12}_[A-Za-z0-9]{49}$" $auth.adminKey)) -}}
{{- fail "auth.adminKey: is not what carillon admin-key prints" -}}
{{- end -}}
{{- if not (regexMatch "^([A-Za-z0-9_-]{1,32}:[A-Za-z0-9+/=_-]{43,44}([,\\s]+|$))*$" .Values.encryption.keys) -}}
{{- fail "encryption.keys: is not what carillon encryption-key prints, separated by commas" -}}
{{- end -}}
{{- if and $auth.adminKey $auth.adminKeySecret.name -}}
{{- fail "auth.adminKey: given together with auth.adminKeySecret: give one of the two" -}}
{{- end -}}
{{- if and .Values.encryption.keys .Values.encryption.keysSecret.name -}}
{{- fail "encryption.keys: given together with encryption.keysSecret: give one of the two" -}}
{{- end -}}
{{- if ne (empty $auth.trustHeader) (empty $auth.trustFrom) -}}
{{- fail "auth.trustHeader: needs auth.trustFrom, and auth.trustFrom needs it" -}}
{{- end -}}
{{- $oidc := $auth.oidc -}}
{{- if and $oidc.issuer (not (or $oidc.clientID $oidc.audience)) -}}
{{- fail "auth.oidc.issuer: needs auth.oidc.clientID for people, or auth.oidc.audience for machines" -}}
{{- end -}}
{{- if and $oidc.issuer (not $oidc.roles) -}}
{{- fail "auth.oidc.issuer: needs auth.oidc.roles, without which nobody may do anything" -}}
{{- end -}}
{{- if and $oidc.audience (eq $oidc.audience $oidc.clientID) -}}
{{- fail "auth.oidc.audience: must be another than auth.oidc.clientID" -}}
{{- end -}}
{{- if and $oidc.clientID (not (has "openid" (join " " $oidc.scopes | splitList " "))) -}}
{{- fail "auth.oidc.scopes: openid is not among them; add it, or nobody can sign in" -}}
{{- end -}}
{{- if and (not $oidc.issuer) (or $oidc.clientID $oidc.clientSecret.name $oidc.redirectURL $oidc.audience $oidc.roles $oidc.sessionsSince) -}}
{{- fail "auth.oidc.issuer: needed by the other values of auth.oidc" -}}
{{- end -}}
{{- if and (not $auth.enabled) $oidc.issuer -}}
{{- fail "auth.enabled: false lets everybody in, and there is auth.oidc: remove one of the two" -}}
{{- end -}}
{{- if and (not $auth.enabled) (or $auth.adminKey $auth.adminKeySecret.name $auth.trustHeader .Values.apiKeysSecret) -}}
{{- fail "auth.enabled: false lets everybody in, and there are keys or a trusted header: remove one of the two" -}}
{{- end -}}
{{- end -}}

{{/* The location of the admin key: {name, key}. */}}
{{- define "carillon.adminKey" -}}
{{- if .Values.auth.adminKeySecret.name -}}
{{ toYaml .Values.auth.adminKeySecret }}
{{- else -}}
{name: {{ include "carillon.keysName" . }}, key: adminKey}
{{- end -}}
{{- end -}}

{{/* The location of the encryption keys. */}}
{{- define "carillon.encryptionKeys" -}}
{{- if .Values.encryption.keysSecret.name -}}
{{ toYaml .Values.encryption.keysSecret }}
{{- else -}}
{name: {{ include "carillon.keysName" . }}, key: encryptionKeys}
{{- end -}}
{{- end -}}

{{/* Refuses contradictory values of TLS and of logins to the servers. */}}
{{- define "carillon.checkTLS" -}}
{{- $v := .Values -}}
{{- range $server := list "mysql" "redis" "pulsar" -}}
{{- $tls := (index $v $server).tls -}}
{{- $secrets := or $tls.caSecret.name $tls.certSecret -}}
{{- if and $v.developmentServers.enabled (or $secrets $tls.enabled) -}}
{{- fail (printf "%s.tls: the development servers have no TLS" $server) -}}
{{- end -}}
{{- if and $secrets (ne $server "pulsar") (not $tls.enabled) -}}
{{- fail (printf "%s.tls: its Secrets are without effect unless %s.tls.enabled" $server $server) -}}
{{- end -}}
{{- end -}}
{{- if ne (empty $v.pulsar.oauth2.issuer) (empty $v.pulsar.oauth2.keySecret.name) -}}
{{- fail "pulsar.oauth2: issuer needs keySecret, and keySecret needs issuer" -}}
{{- end -}}
{{- if and $v.pulsar.oauth2.issuer $v.pulsar.token -}}
{{- fail "pulsar.token: given together with pulsar.oauth2: give one of the two" -}}
{{- end -}}
{{- if and (or $v.pulsar.tls.caSecret.name $v.pulsar.tls.certSecret) (not (or (hasPrefix "pulsar+ssl:" $v.pulsar.url) (hasPrefix "https:" $v.pulsar.adminUrl))) -}}
{{- fail "pulsar.tls: its Secrets are without effect unless pulsar.url begins with pulsar+ssl:// or pulsar.adminUrl with https://" -}}
{{- end -}}
{{- end -}}

{{/* The files of a service: (dict "root" $ "service" "api"), a list of {variable, path, secret: {name, key}}. The set-up is the service "setup". */}}
{{- define "carillon.files" -}}
{{- $v := .root.Values -}}
{{- range $server := list "mysql" "redis" "pulsar" }}
{{- $tls := (index $v $server).tls }}
{{- $variable := printf "CARILLON_%s_TLS" (upper $server) }}
{{- if $tls.caSecret.name }}
- {variable: {{ $variable }}_CA, path: {{ $server }}-ca.crt, secret: {{ toJson $tls.caSecret }}}
{{- end }}
{{- with $tls.certSecret }}
- {variable: {{ $variable }}_CERT, path: {{ $server }}.crt, secret: {name: {{ . }}, key: tls.crt}}
- {variable: {{ $variable }}_KEY, path: {{ $server }}.key, secret: {name: {{ . }}, key: tls.key}}
{{- end }}
{{- end }}
{{- if $v.pulsar.oauth2.keySecret.name }}
- {variable: CARILLON_PULSAR_OAUTH2_KEY_FILE, path: pulsar-oauth2.json, secret: {{ toJson $v.pulsar.oauth2.keySecret }}}
{{- end }}
{{- if and (eq .service "api") $v.service.certSecret }}
- {variable: CARILLON_HTTP_TLS_CERT, path: http.crt, secret: {name: {{ $v.service.certSecret }}, key: tls.crt}}
- {variable: CARILLON_HTTP_TLS_KEY, path: http.key, secret: {name: {{ $v.service.certSecret }}, key: tls.key}}
{{- end }}
{{- if and (eq .service "api") $v.auth.enabled }}
- {variable: CARILLON_ADMIN_KEY_FILE, path: admin.key, secret: {{ include "carillon.adminKey" .root | fromYaml | toJson }}}
{{- if and $v.auth.oidc.issuer $v.auth.oidc.clientSecret.name }}
- {variable: CARILLON_OIDC_CLIENT_SECRET_FILE, path: oidc-client-secret, secret: {{ toJson $v.auth.oidc.clientSecret }}}
{{- end }}
{{- if $v.apiKeysSecret }}
- {variable: CARILLON_API_KEYS_FILE, path: keys, secret: {name: {{ $v.apiKeysSecret }}, key: keys}}
{{- end }}
{{- end }}
{{- if has .service (list "api" "executor") }}
- {variable: CARILLON_ENCRYPTION_KEYS_FILE, path: encryption.keys, secret: {{ include "carillon.encryptionKeys" .root | fromYaml | toJson }}}
{{- end }}
{{- end -}}

{{/* The volume of files, which an update of a Secret changes in running pods too. */}}
{{- define "carillon.filesVolume" -}}
- name: files
  projected:
    defaultMode: 0440
    sources:
      {{- range . }}
      - secret: {name: {{ .secret.name }}, items: [{key: {{ .secret.key }}, path: {{ .path }}}]}
      {{- end }}
{{- end -}}

{{/* A new admin key in the format of `carillon admin-key`: its last six characters are the CRC-32 of the rest. */}}
{{- define "carillon.freshKey" -}}
{{- $body := printf "crl_%s_%s" (randAlphaNum 12) (randAlphaNum 43) -}}
{{- $crc := 4294967295 -}}
{{- range $i := until (len $body) -}}
{{- $crc = include "carillon.xor" (list $crc (index $body $i)) | int64 -}}
{{- range until 8 -}}
{{- $odd := mod $crc 2 -}}
{{- $crc = div $crc 2 -}}
{{- if $odd }}{{ $crc = include "carillon.xor" (list $crc 3988292384) | int64 }}{{ end -}}
{{- end -}}
{{- end -}}
{{- $crc = sub 4294967295 $crc -}}
{{- $sum := "" -}}
{{- range until 6 -}}
{{- $sum = printf "%c%s" (index "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz" (int (mod $crc 62))) $sum -}}
{{- $crc = div $crc 62 -}}
{{- end -}}
{{- print $body $sum -}}
{{- end -}}

{{/* Exclusive or of two numbers of 32 bits. */}}
{{- define "carillon.xor" -}}
{{- $sum := 0 -}}
{{- $bit := 1 -}}
{{- range until 32 -}}
{{- $sum = add $sum (mul $bit (mod (add (div (index $ 0) $bit) (div (index $ 1) $bit)) 2)) -}}
{{- $bit = mul $bit 2 -}}
{{- end -}}
{{- $sum -}}
{{- end -}}
