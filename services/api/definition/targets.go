package definition

import (
	"bytes"
	"encoding/base64"
	"strconv"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"

	"github.com/carillon-timer/carillon/libs/callback"
	"github.com/carillon-timer/carillon/libs/encryption"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/api/input"
)

// TargetBody is a target as a caller writes it.
type TargetBody struct {
	Kind CallableKind `json:"kind,omitempty" default:"http" doc:"The protocol."`
	TargetFields
}

// ShownTarget is a target as answers show it, with REDACTED in place of secrets. Carillon's own
// timers have kinds that callers cannot request.
type ShownTarget struct {
	Kind shownKind `json:"kind" doc:"The protocol; canary is Carillon's own and calls nobody."`
	TargetFields
}

// CallableKind is a kind of target that callers may request.
type CallableKind string

// Schema lists the kinds.
func (CallableKind) Schema(huma.Registry) *huma.Schema { return kindSchema(callback.Kinds()) }

// shownKind is a kind of target that answers may show.
type shownKind string

// Schema lists the kinds, and Carillon's own.
func (shownKind) Schema(huma.Registry) *huma.Schema {
	return kindSchema(append(callback.Kinds(), timer.KindCanary))
}

func kindSchema(kinds []timer.TargetKind) *huma.Schema {
	s := &huma.Schema{Type: huma.TypeString}
	for _, k := range kinds {
		s.Enum = append(s.Enum, string(k))
	}
	return s
}

// TargetFields are the fields that both have. Embedded structs are exported, because huma reads no
// others.
type TargetFields struct {
	Name    string              `json:"name,omitempty" maxLength:"32" doc:"Tells the targets of one timer apart; their place from 1 where it is left out."`
	URL     string              `json:"url" required:"false" doc:"http: an absolute http or https URL, at most 2048 bytes, once variables are put in, too; a user and a password in it are kept as the secret header Authorization. grpc: grpc://host:port, or grpcs for TLS. pulsar: pulsar://host:port, or pulsar+ssl; empty for the deployment's own Pulsar." example:"https://example.com/hook"`
	Method  string              `json:"method,omitempty" doc:"http: GET, POST, PUT, PATCH, DELETE or another registered one; POST by default."`
	Headers map[string][]string `json:"headers,omitempty" doc:"Name to list of values; at most 64 names and 8 KiB, once variables are put in, too. Metadata of grpc, properties of pulsar, which have one value each."`
	Body    string              `json:"body,omitempty" doc:"Sent byte for byte, unless templates; at most 256 KiB, and 1 MiB once variables are put in."`

	BodyBase64 string `json:"body_base64,omitempty" doc:"In place of body: bytes in base64, sent as they are; no variables are put in. Answers have it where the bytes are not valid UTF-8, and body else."`

	Query         map[string][]string          `json:"query,omitempty" doc:"http: added to the URL's own query, escaped; at most 2048 bytes before that."`
	SecretHeaders map[string]encryption.Secret `json:"secret_headers,omitempty" doc:"Like headers, with one value of at most 8 KiB each, which is sent as it is: templates put no variables in. Encrypted at rest, never shown: answers say REDACTED. REDACTED in a change keeps the value that is stored, as long as it goes to the same host (that of a Host header, too), or topic."`
	Templates     bool                         `json:"templates,omitempty" doc:"Whether {{variables}} in url, query, headers, body and pulsar.key are put in: fire.id, due, due.utc, due.unix, due.unix_ms, attempt, cause, timer.id, timer.name, app, zone, label.<name>; {{open}} is a literal {{."`
	Unsigned      bool                         `json:"unsigned,omitempty" doc:"Send no signature, also where the app has signing keys."`
	Async         string                       `json:"async,omitempty" doc:"The receiver may answer 202 with Carillon-Accepted: async and complete the fire within so long, at most 168h, by POST /fires/{id}/complete." example:"10m"`
	Success       *successBody                 `json:"success,omitempty" doc:"Which answers are success; any 2xx where it is left out."`
	Redirects     int                          `json:"redirects,omitempty" minimum:"0" doc:"http: how many are followed, at most 10; none by default. One that is not followed is the answer. To another origin go the body, the other headers and the signature, but not secret_headers, Authorization, Cookie, the completion token and the client certificate."`
	HTTP2         string                       `json:"http2,omitempty" enum:"never,always" doc:"http: by default HTTP/2 is spoken where an https server offers it."`
	TLS           *tlsBody                     `json:"tls,omitempty" doc:"https and grpcs."`
	OAuth2        *oauth2Body                  `json:"oauth2,omitempty" doc:"http and grpcs: an Authorization header by the client credentials grant. A token is used until it expires or is refused (401, UNAUTHENTICATED); the attempt whose token is refused has failed."`
	Pulsar        *pulsarBody                  `json:"pulsar,omitempty" doc:"pulsar: where it publishes."`
}

type successBody struct {
	Statuses string `json:"statuses,omitempty" doc:"http: statuses and ranges of them; 200-299 by default." example:"200-299,409"`
	Body     string `json:"body,omitempty" doc:"http: a regular expression (RE2) of at most 512 bytes that must match the first 64 KiB of the body."`
}

type tlsBody struct {
	ServerName string            `json:"server_name,omitempty" doc:"What the server's certificate must name; the URL's host by default."`
	CA         string            `json:"ca,omitempty" doc:"Certificates in PEM, at most 64 KiB, that vouch for the server in place of the system's."`
	Insecure   bool              `json:"insecure,omitempty" doc:"Believe any certificate; only where the deployment allows it."`
	Cert       string            `json:"cert,omitempty" doc:"The client's certificate and its chain, in PEM, at most 64 KiB."`
	Key        encryption.Secret `json:"key,omitzero" doc:"The key of cert, in PEM, at most 64 KiB; encrypted at rest, shown as REDACTED."`
}

type oauth2Body struct {
	TokenURL string                `json:"token_url" doc:"Where tokens are had; at most 2048 bytes."`
	ClientID string                `json:"client_id"`
	Secret   encryption.Secret     `json:"secret" doc:"The client's secret, at most 8 KiB; encrypted at rest, shown as REDACTED."`
	Scopes   []string              `json:"scopes,omitempty" nullable:"false"`
	Params   map[string]tokenParam `json:"params,omitempty" doc:"Further fields of the token request, at most 8 KiB each. audience and resource are shown; the others are encrypted at rest and shown as REDACTED."`
	InBody   bool                  `json:"in_body,omitempty" doc:"Client id and secret as form fields, not by HTTP Basic."`
}

// tokenParam is a field of a token request. It is hidden like any secret, until ShowTarget shows it.
type tokenParam struct {
	encryption.Secret

	shown bool
}

// MarshalText hides the text unless it is no secret.
func (p tokenParam) MarshalText() ([]byte, error) {
	if p.shown {
		return []byte(p.Reveal()), nil
	}
	return p.Secret.MarshalText()
}

// showParams converts the parameters of a token request. Those of older definitions may be in the
// clear and secret nevertheless.
func showParams(o *timer.OAuth2) map[string]tokenParam {
	if len(o.Params) == 0 && len(o.SecretParams) == 0 {
		return nil
	}
	shown := make(map[string]tokenParam, len(o.Params)+len(o.SecretParams))
	for name, v := range o.Params {
		shown[name] = tokenParam{redacted, false}
		if timer.PublicParam(name) || v == "" {
			shown[name] = tokenParam{encryption.NewSecret(v), true}
		}
	}
	for name := range o.SecretParams {
		shown[name] = tokenParam{redacted, false}
	}
	return shown
}

type pulsarBody struct {
	Topic string `json:"topic" example:"persistent://public/default/orders"`
	Key   string `json:"key,omitempty" doc:"Of the messages, at most 128 bytes; the timer's id by default."`
}

// ReadTargets converts the target or targets of a body. REDACTED secrets are taken from stored,
// which may be nil.
func (s *Reader) ReadTargets(
	app string,
	one *TargetBody,
	several []TargetBody,
	mode string,
	stored *timer.Definition,
	r *input.BodyReader,
) (timer.Target, timer.Fanout) {
	if stored != nil {
		d := s.MoveUserinfo(app, *stored)
		stored = &d
	}
	in := targetReader{service: s, app: app, r: r, stored: stored}
	f := timer.Fanout{Mode: timer.Mode(mode)}
	for i := range several {
		f.Targets = append(
			f.Targets,
			in.read("targets["+strconv.Itoa(i)+"]", &several[i], i, len(several)),
		)
	}
	if one == nil {
		return timer.Target{}, f
	}
	return in.read("target", one, 0, 1), f
}

// targetReader converts the targets of one definition.
type targetReader struct {
	service *Reader
	app     string
	stored  *timer.Definition
	r       *input.BodyReader
}

func (in *targetReader) read(field string, b *TargetBody, at, of int) timer.Target {
	t := timer.Target{
		Kind: timer.TargetKind(
			b.Kind,
		),
		URL:       b.URL,
		Method:    b.Method,
		Headers:   b.Headers,
		Body:      b.Body,
		Name:      b.Name,
		Query:     b.Query,
		Templates: b.Templates,
		Unsigned:  b.Unsigned,
		Async:     in.r.Duration(field+".async", b.Async, 0),
		Redirects: b.Redirects,
		HTTP2:     timer.HTTP2(b.HTTP2),
	}
	if b.BodyBase64 != "" {
		t.Body, t.Bytes = in.body(field, b, &t)
	}
	if b.Success != nil && *b.Success != (successBody{}) {
		set, err := timer.ParseStatuses(b.Success.Statuses)
		if err != nil {
			in.r.Invalid(field+".success.statuses", err.Error())
		}
		t.Success = &timer.Success{Statuses: set, Body: b.Success.Body}
	}
	if b.Pulsar != nil {
		t.Pulsar = &timer.PulsarTopic{Topic: b.Pulsar.Topic, Key: b.Pulsar.Key}
	}
	if t.Async > 0 && in.service.Tokens == nil {
		in.r.Invalid(field+".async", NoEncryptionKeys)
	}
	in.secrets(field, b, &t, in.storedTarget(b, at, of))
	in.userinfo(field, &t)
	return t
}

// body decodes a base64 body. A body that is plain text without variables is stored as text, so
// that both forms are the same definition.
func (in *targetReader) body(field string, b *TargetBody, t *timer.Target) (string, []byte) {
	raw, err := base64.StdEncoding.DecodeString(b.BodyBase64)
	varies := t.Templates && bytes.Contains(raw, []byte("{{"))
	switch {
	case err != nil:
		in.r.Invalid(
			field+".body_base64",
			"expected base64 (RFC 4648, with padding), found another text",
		)
		return t.Body, nil
	case t.Body == "" && len(raw) <= timer.MaxBodyLen && utf8.Valid(raw) && !varies:
		return string(raw), nil
	}
	return t.Body, raw
}

// storedTarget returns the stored target that a body replaces: the one of the same name, or at the
// same place where neither has a name. It returns nil where there is none.
func (in *targetReader) storedTarget(b *TargetBody, at, of int) *timer.Target {
	if in.stored == nil {
		return nil
	}
	had := in.stored.Targets
	if !in.stored.Several() {
		had = []timer.Target{in.stored.Target}
	}
	if len(had) == 1 && of == 1 {
		return &had[0]
	}
	for i := range had {
		if b.Name != "" && had[i].Name == b.Name {
			return &had[i]
		}
	}
	if b.Name == "" && at < len(had) && had[at].Name == "" {
		return &had[at]
	}
	return nil
}

// ShowTarget converts a target, without its secrets.
func ShowTarget(t *timer.Target) *ShownTarget {
	t = WithoutUserinfo(t)
	b := &ShownTarget{Kind: shownKind(t.Kind), TargetFields: TargetFields{
		Name:      t.Name,
		URL:       t.URL,
		Method:    t.Method,
		Headers:   t.Headers,
		Body:      t.Body,
		Query:     t.Query,
		Templates: t.Templates,
		Unsigned:  t.Unsigned,
		Async:     showDuration(t.Async),
		Redirects: t.Redirects,
		HTTP2:     string(t.HTTP2),
	}}
	if len(t.Bytes) > 0 {
		b.BodyBase64 = base64.StdEncoding.EncodeToString(t.Bytes)
	}
	for name := range t.SecretHeaders {
		if b.SecretHeaders == nil {
			b.SecretHeaders = make(map[string]encryption.Secret, len(t.SecretHeaders))
		}
		b.SecretHeaders[name] = redacted
	}
	if t.Success != nil {
		b.Success = &successBody{Statuses: t.Success.Statuses.String(), Body: t.Success.Body}
	}
	if o := t.TLS; o != nil {
		b.TLS = &tlsBody{ServerName: o.ServerName, CA: o.CA, Insecure: o.Insecure, Cert: o.Cert}
		if o.Key != "" {
			b.TLS.Key = redacted
		}
	}
	if o := t.OAuth2; o != nil {
		tokenURL, _, _ := callback.Userinfo(o.TokenURL)
		b.OAuth2 = &oauth2Body{
			TokenURL: tokenURL,
			ClientID: o.ClientID,
			Secret:   redacted,
			Scopes:   o.Scopes,
			Params:   showParams(o),
			InBody:   o.InBody,
		}
	}
	if o := t.Pulsar; o != nil {
		b.Pulsar = &pulsarBody{Topic: o.Topic, Key: o.Key}
	}
	return b
}
