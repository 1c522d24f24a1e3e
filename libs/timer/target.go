package timer

import "time"

// TargetKind says by which protocol a timer calls back.
type TargetKind string

// The kinds.
const (
	KindHTTP   TargetKind = "http"   // calls a URL
	KindGRPC   TargetKind = "grpc"   // calls carillon.v1.Callback at host:port
	KindPulsar TargetKind = "pulsar" // publishes to a topic
	// KindCanary: calls nobody: the executor notes how late it is. Only for timers of ReservedApp.
	KindCanary TargetKind = "canary"
)

// Target is whom a timer calls. Package callback checks it and calls it. What a field means for
// another kind than its own is nothing, and CheckTarget refuses it. Every field but the first four
// came later: rows without them mean what they always meant.
type Target struct {
	Kind TargetKind `json:"kind"`
	// http(s)://…; grpc://host:port and grpcs://host:port (TLS); pulsar(+ssl)://host:port, or empty
	// for the deployment's own Pulsar.
	URL    string `json:"url"`
	Method string `json:"method"` // http only; empty is POST
	// of the request; metadata of grpc; properties of pulsar, with one value each.
	Headers map[string][]string `json:"headers,omitempty"`
	Body    string              `json:"body,omitempty"` // sent byte for byte, unless Templates

	// in place of Body, which is text: sent as they are, whatever Templates says.
	Bytes []byte `json:"body_base64,omitempty"`
	// tells targets of one timer apart, in attempts and metrics; empty is its place from 1.
	Name string `json:"name,omitempty"`
	// http: added to the URL's own query, escaped, in the order of the names.
	Query map[string][]string `json:"query,omitempty"`
	// like Headers, but sealed at rest and never shown.
	SecretHeaders map[string]Sealed `json:"secret_headers,omitempty"`
	// whether {{…}} in URL, Query, Headers, Body and Pulsar.Key is expanded (package payload).
	Templates bool `json:"templates,omitempty"`
	// whether a signature is left out that the app's keys would make.
	Unsigned bool `json:"unsigned,omitempty"`
	// > 0: the receiver may accept now and complete within so long; see callback.
	Async   Duration `json:"async,omitempty"`
	Success *Success `json:"success,omitempty"` // nil: any 2xx
	// http: how many are followed; 0 is none.
	Redirects int   `json:"redirects,omitempty"`
	HTTP2     HTTP2 `json:"http2,omitempty"` // http
	TLS       *TLS  `json:"tls,omitempty"`   // https and grpcs
	// http and grpc: an Authorization header of client credentials.
	OAuth2 *OAuth2      `json:"oauth2,omitempty"`
	Pulsar *PulsarTopic `json:"pulsar,omitempty"` // pulsar
}

// Sealed is text that package sealing encrypted: it may lie in a database, and says nothing. The
// empty text is none.
type Sealed string

// Success says which answers are success.
type Success struct {
	Statuses Statuses `json:"statuses,omitempty"` // http; empty is 200-299
	// http: regular expression (RE2) that must match the first 64 KiB of the body; empty is none.
	Body string `json:"body,omitempty"`
}

// HTTP2 says when HTTP/2 is spoken.
type HTTP2 string

// The ways.
const (
	HTTP2Offered HTTP2 = ""      // where an https server offers it
	HTTP2Never   HTTP2 = "never" // HTTP/1.1 only
	// HTTP2Always: from the first byte, over http too (h2c); a server that does not speak it fails
	// the attempt.
	HTTP2Always HTTP2 = "always"
)

// TLS is how a server is authenticated, and we before it.
type TLS struct {
	// SNI, and what the certificate must name; empty is the URL's host.
	ServerName string `json:"server_name,omitempty"`
	// PEM: vouch for the server in place of the system's roots.
	CA string `json:"ca,omitempty"`
	// believe any certificate; only where the deployment allows it.
	Insecure bool   `json:"insecure,omitempty"`
	Cert     string `json:"cert,omitempty"` // PEM: our certificate and its chain
	Key      Sealed `json:"key,omitempty"`  // PEM: the key of Cert
}

// OAuth2 is how a token is had for the Authorization header: by the client credentials grant.
type OAuth2 struct {
	TokenURL string   `json:"token_url"`
	ClientID string   `json:"client_id"`
	Secret   Sealed   `json:"secret"`
	Scopes   []string `json:"scopes,omitempty"`
	// further ones of the token request, such as "audience".
	Params map[string]string `json:"params,omitempty"`
	// client id and secret as form fields, not by HTTP Basic.
	InBody bool `json:"in_body,omitempty"`
}

// PulsarTopic is where a pulsar target publishes.
type PulsarTopic struct {
	Topic string `json:"topic"` // persistent://tenant/namespace/topic
	// empty is the timer id: a timer's fires stay in order on a partitioned topic.
	Key string `json:"key,omitempty"`
}

// Limits of targets.
const (
	MaxTargets       = 8 // of one timer
	MaxRedirects     = 10
	MaxRegexpLen     = 512      // bytes
	MaxPEMLen        = 64 << 10 // bytes of each PEM text
	MaxSecretLen     = 8 << 10  // bytes before sealing
	MaxTargetNameLen = 32       // bytes
	MaxAsync         = Duration(168 * time.Hour)
)

// Mode says how several targets make one delivery.
type Mode string

// The modes.
const (
	ModeAny Mode = "any" // one after the other until one succeeds: failover
	// ModeAll: all at once; delivered when each was; a retry calls only those that have not taken
	// it.
	ModeAll Mode = "all"
)

// Fanout is what a definition has in place of its Target where it has several. Definition embeds
// it; at most one of the two is set.
type Fanout struct {
	Mode    Mode     `json:"mode,omitempty"`    // empty where there are no Targets
	Targets []Target `json:"targets,omitempty"` // at most MaxTargets
}

// Several tells whether there is more than the one Target.
func (f *Fanout) Several() bool { return len(f.Targets) > 0 }
