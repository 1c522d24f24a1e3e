package timer

import "time"

// TargetKind is the protocol of a callback.
type TargetKind string

// The kinds.
const (
	KindHTTP   TargetKind = "http"   // calls a URL
	KindGRPC   TargetKind = "grpc"   // calls carillon.v1.Callback at host:port
	KindPulsar TargetKind = "pulsar" // publishes to a topic
	// KindCanary calls nothing: the executor records the lateness. Only timers of ReservedApp may
	// use it.
	KindCanary TargetKind = "canary"
)

// Target is what a timer calls. Package callback validates and calls it. CheckTarget rejects fields
// that belong to another kind. All fields but the first four were added later; in older rows their
// zero value keeps the old meaning.
type Target struct {
	Kind TargetKind `json:"kind"`
	// URL is http(s)://…, grpc://host:port, grpcs://host:port (TLS) or pulsar(+ssl)://host:port.
	// Empty means the deployment's own Pulsar.
	URL    string `json:"url"`
	Method string `json:"method"` // http only; empty means POST
	// Headers are request headers, gRPC metadata, or Pulsar properties (one value each).
	Headers map[string][]string `json:"headers,omitempty"`
	Body    string              `json:"body,omitempty"` // sent unchanged, unless Templates is set

	// Bytes replaces Body, which is text. They are sent unchanged, even if Templates is set.
	Bytes []byte `json:"body_base64,omitempty"`
	// Name identifies the target in attempts and metrics. Empty means its position, from 1.
	Name string `json:"name,omitempty"`
	// Query is added to the query of the URL, escaped and sorted by name (http).
	Query map[string][]string `json:"query,omitempty"`
	// SecretHeaders are like Headers, but encrypted at rest and never shown.
	SecretHeaders map[string]Sealed `json:"secret_headers,omitempty"`
	// Templates enables {{…}} in URL, Query, Headers, Body and Pulsar.Key (package payload).
	Templates bool `json:"templates,omitempty"`
	// Unsigned omits the signature that the app's keys would create.
	Unsigned bool `json:"unsigned,omitempty"`
	// Async, if positive, lets the receiver accept the call now and complete it within this time.
	// See package callback.
	Async   Duration `json:"async,omitempty"`
	Success *Success `json:"success,omitempty"` // nil means any 2xx
	// Redirects is how many redirects are followed (http). 0 means none.
	Redirects int   `json:"redirects,omitempty"`
	HTTP2     HTTP2 `json:"http2,omitempty"` // http
	TLS       *TLS  `json:"tls,omitempty"`   // https and grpcs
	// OAuth2 adds an Authorization header by client credentials (http and grpc).
	OAuth2 *OAuth2      `json:"oauth2,omitempty"`
	Pulsar *PulsarTopic `json:"pulsar,omitempty"` // pulsar
}

// Sealed is text that package encryption encrypted, so it is safe to store. Empty text means no
// secret.
type Sealed string

// Success decides which responses are a success.
type Success struct {
	Statuses Statuses `json:"statuses,omitempty"` // http; empty means 200-299
	// Body is a regular expression (RE2) that must match the first 64 KiB of the body (http). Empty
	// means no rule.
	Body string `json:"body,omitempty"`
}

// HTTP2 decides when HTTP/2 is used.
type HTTP2 string

// The HTTP/2 modes.
const (
	HTTP2Offered HTTP2 = ""      // if an https server offers it
	HTTP2Never   HTTP2 = "never" // HTTP/1.1 only
	// HTTP2Always uses HTTP/2 from the first byte, also over http (h2c). The attempt fails if the
	// server does not support it.
	HTTP2Always HTTP2 = "always"
)

// TLS configures how the server is authenticated, and how we authenticate to it.
type TLS struct {
	// ServerName is the SNI and the name that the certificate must have. Empty means the host of
	// the URL.
	ServerName string `json:"server_name,omitempty"`
	// CA are PEM certificates that replace the system's roots.
	CA string `json:"ca,omitempty"`
	// Insecure accepts any certificate. The deployment must permit it.
	Insecure bool   `json:"insecure,omitempty"`
	Cert     string `json:"cert,omitempty"` // PEM: our certificate chain
	Key      Sealed `json:"key,omitempty"`  // PEM: the key of Cert
}

// OAuth2 configures how a token for the Authorization header is obtained: by the client credentials
// grant.
type OAuth2 struct {
	TokenURL string   `json:"token_url"`
	ClientID string   `json:"client_id"`
	Secret   Sealed   `json:"secret"`
	Scopes   []string `json:"scopes,omitempty"`
	// Params are additional parameters of the token request that are no secrets, by PublicParam.
	// Older definitions have others here too.
	Params map[string]string `json:"params,omitempty"`
	// SecretParams are the other additional parameters, encrypted at rest and never shown.
	SecretParams map[string]Sealed `json:"secret_params,omitempty"`
	// InBody sends client id and secret as form fields instead of HTTP Basic.
	InBody bool `json:"in_body,omitempty"`
}

// PublicParam returns whether a parameter of a token request names a service and so is no secret.
// Any other may be one: servers choose names such as "password" or "assertion" freely.
func PublicParam(name string) bool { return name == "audience" || name == "resource" }

// PulsarTopic is where a pulsar target publishes.
type PulsarTopic struct {
	Topic string `json:"topic"` // persistent://tenant/namespace/topic
	// Key is the message key. Empty means the timer id, so a timer's fires stay in order on a
	// partitioned topic.
	Key string `json:"key,omitempty"`
}

// Limits of targets.
const (
	MaxTargets       = 8 // targets per timer
	MaxRedirects     = 10
	MaxRegexpLen     = 512      // bytes
	MaxPEMLen        = 64 << 10 // bytes of each PEM text
	MaxSecretLen     = 8 << 10  // bytes before encryption
	MaxTargetNameLen = 32       // bytes
	MaxAsync         = Duration(168 * time.Hour)
)

// Mode is how several targets form one delivery.
type Mode string

// The modes.
const (
	ModeAny Mode = "any" // one target after the other until one succeeds: failover
	// ModeAll calls all targets at once. The fire is delivered when each succeeded. A retry calls
	// only the remaining ones.
	ModeAll Mode = "all"
)

// Fanout replaces Target in a definition with several targets. Definition embeds it, and at most
// one of the two is set.
type Fanout struct {
	Mode    Mode     `json:"mode,omitempty"`    // empty where there are no Targets
	Targets []Target `json:"targets,omitempty"` // at most MaxTargets
}

// Several reports whether the definition has Targets instead of one Target.
func (f *Fanout) Several() bool { return len(f.Targets) > 0 }
