package callback_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/callback"
	"github.com/carillon-timer/carillon/libs/egress"
	"github.com/carillon-timer/carillon/libs/timer"
)

func TestChecks(t *testing.T) {
	t.Parallel()
	cert, _ := newCert(t, "client")
	http := func(change func(t *timer.Target)) timer.Target {
		target := timer.Target{
			Kind:   timer.KindHTTP,
			URL:    "https://example.com/hook",
			Method: "POST",
		}
		change(&target)
		return target
	}
	grpc := func(change func(t *timer.Target)) timer.Target {
		target := timer.Target{Kind: timer.KindGRPC, URL: "grpcs://example.com:443"}
		change(&target)
		return target
	}
	pulsar := func(change func(t *timer.Target)) timer.Target {
		target := timer.Target{
			Kind:   timer.KindPulsar,
			Pulsar: &timer.PulsarTopic{Topic: "persistent://shop/a/b"},
		}
		change(&target)
		return target
	}
	oauth := func() *timer.OAuth2 {
		return &timer.OAuth2{
			TokenURL: "https://id.example/token",
			ClientID: "me",
			Secret:   "cs1.k.x",
		}
	}
	tests := []struct {
		name   string
		target timer.Target
		field  string // empty: valid
		msg    string
	}{
		{"everything of http", http(func(x *timer.Target) {
			x.Name, x.Method, x.Query, x.Templates, x.Async = "a", "QUERY", map[string][]string{
				"a": {"{{due}}"},
			}, true, timer.Duration(
				time.Hour,
			)
			x.URL, x.Body, x.Headers = "https://example.com/{{label.team}}", `{"a":"{{label.team}}"}`, map[string][]string{
				"X-A": {"{{fire.id}}"},
			}
			x.SecretHeaders = map[string]timer.Sealed{"X-Key": "cs1.k.x"}
			x.Success, x.Redirects, x.HTTP2 = &timer.Success{Body: "ok"}, 10, timer.HTTP2Always
			x.TLS, x.OAuth2 = &timer.TLS{
				CA:         cert,
				Cert:       cert,
				Key:        "cs1.k.x",
				ServerName: "a.example",
			}, oauth()
		}), "", ""},
		{"grpc", grpc(func(x *timer.Target) {
			x.Headers, x.TLS, x.OAuth2 = map[string][]string{"X-A": {"b"}}, &timer.TLS{}, oauth()
		}), "", ""},
		{
			"pulsar",
			pulsar(func(x *timer.Target) { x.URL = "pulsar://broker.example:6650" }),
			"",
			"",
		},
		{
			"a label that is not there",
			http(func(x *timer.Target) { x.Templates, x.Body = true, "{{label.nobody}}" }),
			"target.body",
			"expected a label that the timer has",
		},
		{
			"a variable in the host",
			http(func(x *timer.Target) { x.Templates, x.URL = true, "https://{{label.team}}/" }),
			"target.url",
			"expected scheme, host and port without variables",
		},
		{"a variable in a header", http(func(x *timer.Target) {
			x.Templates, x.Headers = true, map[string][]string{"X-A": {"{{nope}}"}}
		}), "target.headers.X-A", "expected one of the variables app, attempt, cause, due, due.unix,"},
		{"a variable in the content type", http(func(x *timer.Target) {
			x.Templates, x.Headers = true, map[string][]string{
				"content-type": {"application/{{label.team}}"},
			}
		}), "target.headers.Content-Type", "fixed"},
		{
			"a variable in the query",
			http(
				func(x *timer.Target) { x.Templates, x.Query = true, map[string][]string{"a": {"b{{nope}}"}} },
			),
			"target.query.a",
			"expected one of the variables app, attempt, cause, due, due.unix,",
		},
		{"too long a body once it is expanded", http(func(x *timer.Target) {
			x.Templates, x.Body = true, strings.Repeat("{{label.long}}", 5000)
		}), "target.body", "once variables are put in"},
		{"a body that is escaped", http(func(x *timer.Target) {
			x.Templates, x.Body = true, `["`+strings.Repeat("{{label.quotes}}", 2100)+`"]`
		}), "target.body", "expected at most 1048576 bytes once variables are put in"},
		{
			"a body of some length",
			http(
				func(x *timer.Target) { x.Templates, x.Body = true, strings.Repeat("{{label.long}}", 4000) },
			),
			"",
			"",
		},
		{"too long a url once it is expanded", http(func(x *timer.Target) {
			x.Templates, x.URL = true, "https://a.example/"+strings.Repeat("{{label.long}}", 8)
		}), "target.url", "once variables are put in"},
		{"too long a query once it is expanded", http(func(x *timer.Target) {
			x.Templates, x.Query = true, map[string][]string{
				"a": {strings.Repeat("{{label.long}}", 8)},
			}
		}), "target.query", "once variables are put in"},
		{"too long headers once they are expanded", http(func(x *timer.Target) {
			x.Templates, x.Headers = true, map[string][]string{
				"X-A": {strings.Repeat("{{label.long}}", 20), "{{label.long}}"},
				"X-B": {strings.Repeat("{{label.long}}", 12)},
			}
		}), "target.headers", "once variables are put in"},
		{"too long metadata once it is expanded", grpc(func(x *timer.Target) {
			x.Templates, x.Headers = true, map[string][]string{
				"x-a": {strings.Repeat("{{label.long}}", 33)},
			}
		}), "target.headers", "once variables are put in"},
		{
			"bytes",
			http(func(x *timer.Target) { x.Templates, x.Bytes = true, []byte("\xff{{nope") }),
			"",
			"",
		},
		{
			"bytes and text",
			http(func(x *timer.Target) { x.Body, x.Bytes = "x", []byte("x") }),
			"target.body_base64",
			"expected body or body_base64",
		},
		{
			"too many bytes",
			http(func(x *timer.Target) { x.Bytes = make([]byte, timer.MaxBodyLen+1) }),
			"target.body_base64",
			"at most",
		},
		{"templates are off", http(func(x *timer.Target) { x.Body = "{{nope" }), "", ""},
		{
			"too long a name",
			http(func(x *timer.Target) { x.Name = strings.Repeat("x", 33) }),
			"target.name",
			"expected at most 32 bytes without control characters",
		},
		{
			"too long a query",
			http(
				func(x *timer.Target) { x.Query = map[string][]string{"a": {strings.Repeat("x", 4000)}} },
			),
			"target.query",
			"at most",
		},
		{
			"too many redirects",
			http(func(x *timer.Target) { x.Redirects = 11 }),
			"target.redirects",
			"expected a number from 0 to 10",
		},
		{
			"another HTTP",
			http(func(x *timer.Target) { x.HTTP2 = "maybe" }),
			"target.http2",
			"expected \"never\" or \"always\"",
		},
		{
			"a rule that is none",
			http(func(x *timer.Target) { x.Success = &timer.Success{Body: "("} }),
			"target.success.body",
			"regular expression",
		},
		{"a rule that takes for ever", http(func(x *timer.Target) {
			x.Success = &timer.Success{Body: strings.Repeat("(?:x?){1000}", 42)}
		}), "target.success.body", "instructions"},
		{"a rule of some length", http(func(x *timer.Target) {
			x.Success = &timer.Success{
				Body: `(?i)"status"\s*:\s*"(ok|done|accepted|queued)".{0,200}"id"\s*:\s*"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{12}"`,
			}
		}), "", ""},
		{
			"insecure",
			http(func(x *timer.Target) { x.TLS = &timer.TLS{Insecure: true} }),
			"target.tls.insecure",
			"not allow",
		},
		{
			"TLS without TLS",
			http(func(x *timer.Target) { x.URL, x.TLS = "http://a", &timer.TLS{} }),
			"target.tls",
			"https",
		},
		{
			"a CA that is none",
			http(func(x *timer.Target) { x.TLS = &timer.TLS{CA: "x"} }),
			"target.tls.ca",
			"expected certificates in PEM",
		},
		{
			"a certificate without key",
			http(func(x *timer.Target) { x.TLS = &timer.TLS{Cert: cert} }),
			"target.tls.key",
			"expected the key of cert, in PEM",
		},
		{
			"a key without certificate",
			http(func(x *timer.Target) { x.TLS = &timer.TLS{Key: "x"} }),
			"target.tls.cert",
			"expected the certificate of key, in PEM",
		},
		{
			"a token URL that is none",
			http(func(x *timer.Target) { x.OAuth2 = oauth(); x.OAuth2.TokenURL = "x" }),
			"target.oauth2.token_url",
			"http://",
		},
		{
			"no client",
			http(func(x *timer.Target) { x.OAuth2 = oauth(); x.OAuth2.ClientID = "" }),
			"target.oauth2.client_id",
			"expected the client's id",
		},
		{
			"no client secret",
			http(func(x *timer.Target) { x.OAuth2 = oauth(); x.OAuth2.Secret = "" }),
			"target.oauth2.secret",
			"expected the client's secret",
		},
		{"two authorizations", http(func(x *timer.Target) {
			x.OAuth2, x.Headers = oauth(), map[string][]string{"authorization": {"x"}}
		}), "target.headers.authorization", "oauth2"},
		{"a secret header twice", http(func(x *timer.Target) {
			x.Headers, x.SecretHeaders = map[string][]string{
				"X-A": {"x"},
			}, map[string]timer.Sealed{
				"x-a": "s",
			}
		}), "target.secret_headers.x-a", "twice"},
		{
			"a secret host",
			http(func(x *timer.Target) { x.SecretHeaders = map[string]timer.Sealed{"Host": "s"} }),
			"target.secret_headers.Host",
			"host name",
		},
		{"secrets for a host that varies", http(func(x *timer.Target) {
			x.Templates, x.Headers, x.SecretHeaders = true, map[string][]string{
				"host": {"{{app}}.example.com"},
			}, map[string]timer.Sealed{
				"X-A": "s",
			}
		}), "target.headers.host", "to whom the target's secrets go"},
		{"a host that varies", http(func(x *timer.Target) {
			x.Templates, x.Headers = true, map[string][]string{"host": {"{{app}}.example.com"}}
		}), "", ""},
		{"a host that a label makes", http(func(x *timer.Target) {
			x.Templates, x.Headers = true, map[string][]string{
				"host": {"{{label.team}}.{{timer.name}}.example.com"},
			}
		}), "", ""},
		{"a host that a label spoils", http(func(x *timer.Target) {
			x.Templates, x.Headers = true, map[string][]string{"host": {"{{label.quotes}}"}}
		}), "target.headers.host", "host name"},
		{"metadata that a label spoils", grpc(func(x *timer.Target) {
			x.Templates, x.Headers = true, map[string][]string{"x-city": {"{{label.city}}"}}
		}), "target.headers.x-city", "printable ASCII"},
		{"metadata that a label makes", grpc(func(x *timer.Target) {
			x.Templates, x.Headers = true, map[string][]string{"x-team": {"{{label.team}}"}}
		}), "", ""},
		{
			"a host with a brace",
			http(func(x *timer.Target) { x.Headers = map[string][]string{"host": {"{a}"}} }),
			"target.headers.host",
			"host name",
		},
		{
			"a scope of two lines",
			http(
				func(x *timer.Target) { x.OAuth2 = oauth(); x.OAuth2.Scopes = []string{"a\r\nb"} },
			),
			"target.oauth2.scopes",
			"ASCII",
		},
		{"another grant", http(func(x *timer.Target) {
			x.OAuth2 = oauth()
			x.OAuth2.Params = map[string]string{"grant_type": "password"}
		}), "target.oauth2.params.grant_type", "client_credentials"},
		{
			"another client",
			http(
				func(x *timer.Target) { x.OAuth2 = oauth(); x.OAuth2.Params = map[string]string{"client_id": "x"} },
			),
			"target.oauth2.params.client_id",
			"client_id",
		},
		{"a secret in clear", http(func(x *timer.Target) {
			x.OAuth2 = oauth()
			x.OAuth2.Params = map[string]string{"client_secret": "x"}
		}), "target.oauth2.params.client_secret", "secret"},
		{
			"another scope",
			http(
				func(x *timer.Target) { x.OAuth2 = oauth(); x.OAuth2.Params = map[string]string{"scope": "x"} },
			),
			"target.oauth2.params.scope",
			"scopes",
		},
		{"a secret scope", http(func(x *timer.Target) {
			x.OAuth2 = oauth()
			x.OAuth2.SecretParams = map[string]timer.Sealed{"scope": "x"}
		}), "target.oauth2.params.scope", "scopes"},
		{"an audience", http(func(x *timer.Target) {
			x.OAuth2 = oauth()
			x.OAuth2.Scopes, x.OAuth2.Params = []string{
				"a:read",
				"b",
			}, map[string]string{
				"audience": "x",
			}
		}), "", ""},
		{
			"our signature",
			http(
				func(x *timer.Target) { x.Headers = map[string][]string{"webhook-signature": {"x"}} },
			),
			"target.headers.webhook-signature",
			"expected a header that Carillon does not set itself",
		},
		{
			"our trace",
			http(func(x *timer.Target) { x.Headers = map[string][]string{"traceparent": {"x"}} }),
			"target.headers.traceparent",
			"expected a header that Carillon does not set itself",
		},
		{
			"a method that sends secrets back",
			http(func(x *timer.Target) { x.Method = "TRACE" }),
			"target.method",
			"expected GET, POST, PUT, PATCH or DELETE, or another registered",
		},
		{
			"async for a month",
			http(func(x *timer.Target) { x.Async = timer.Duration(720 * time.Hour) }),
			"target.async",
			"168h",
		},
		{
			"a topic for http",
			http(func(x *timer.Target) { x.Pulsar = &timer.PulsarTopic{} }),
			"target.pulsar",
			"kind pulsar",
		},
		{
			"no port",
			grpc(func(x *timer.Target) { x.URL = "grpc://example.com" }),
			"target.url",
			"expected grpc://host:port or grpcs://host:port, found no port",
		},
		{
			"a path",
			grpc(func(x *timer.Target) { x.URL = "grpc://example.com:443/x" }),
			"target.url",
			"expected grpc://host:port or grpcs://host:port, found the path \"/x\"",
		},
		{
			"a password",
			grpc(func(x *timer.Target) { x.URL = "grpc://a:b@example.com:443" }),
			"target.url",
			"expected grpc://host:port or grpcs://host:port, found a user",
		},
		{
			"another scheme",
			grpc(func(x *timer.Target) { x.URL = "https://example.com:443" }),
			"target.url",
			"expected grpc://host:port or grpcs://host:port, found the scheme \"https\"",
		},
		{
			"a method",
			grpc(func(x *timer.Target) { x.Method = "GET" }),
			"target.method",
			"expected nothing for a target of kind grpc",
		},
		{
			"a token without TLS",
			grpc(func(x *timer.Target) { x.URL, x.OAuth2 = "grpc://a.example:80", oauth() }),
			"target.oauth2",
			"grpcs",
		},
		{
			"port 0 of gRPC",
			grpc(func(x *timer.Target) { x.URL = "grpc://example.com:0" }),
			"target.url",
			"found the port 0, which is not from 1 to 65535",
		},
		{
			"a port too high of gRPC",
			grpc(func(x *timer.Target) { x.URL = "grpcs://example.com:65536" }),
			"target.url",
			"found the port 65536, which is not from 1 to 65535",
		},
		{
			"a port that is a word of gRPC",
			grpc(func(x *timer.Target) { x.URL = "grpc://example.com:http" }),
			"target.url",
			"found a text that is no URL: invalid port",
		},
		{
			"no host of gRPC",
			grpc(func(x *timer.Target) { x.URL = "grpc://:443" }),
			"target.url",
			"found no host",
		},
		{
			"no scheme of gRPC",
			grpc(func(x *timer.Target) { x.URL = "example.com:443" }),
			"target.url",
			"found a text without a scheme",
		},
		{
			"no URL of gRPC",
			grpc(func(x *timer.Target) { x.URL = "" }),
			"target.url",
			"found nothing",
		},
		{
			"a query of gRPC",
			grpc(func(x *timer.Target) { x.URL = "grpc://example.com:443?a=b" }),
			"target.url",
			"found a query",
		},
		{
			"metadata with other characters",
			grpc(func(x *timer.Target) { x.Headers = map[string][]string{"a b": {"b"}} }),
			"target.headers.a b",
			`expected a header name of letters, digits, "-", "_" and ".", found others`,
		},
		{
			"metadata with characters of HTTP",
			grpc(func(x *timer.Target) { x.Headers = map[string][]string{"a~b": {"b"}} }),
			"target.headers.a~b",
			`expected a header name of letters, digits, "-", "_" and "."`,
		},
		{
			"secret metadata with characters of HTTP",
			grpc(
				func(x *timer.Target) { x.SecretHeaders = map[string]timer.Sealed{"a~b": "cs1.k.x"} },
			),
			"target.secret_headers.a~b",
			`expected a header name of letters, digits, "-", "_" and "."`,
		},
		{
			"secret metadata of gRPC",
			grpc(
				func(x *timer.Target) { x.SecretHeaders = map[string]timer.Sealed{"Grpc-Tags": "cs1.k.x"} },
			),
			"target.secret_headers.Grpc-Tags",
			`found "grpc-tags"`,
		},
		{
			"binary metadata",
			grpc(func(x *timer.Target) { x.Headers = map[string][]string{"a-bin": {"b"}} }),
			"target.headers.a-bin",
			"binary",
		},
		{
			"metadata of gRPC",
			grpc(func(x *timer.Target) { x.Headers = map[string][]string{"grpc-timeout": {"b"}} }),
			"target.headers.grpc-timeout",
			"gRPC's own",
		},
		{
			"metadata that is no ASCII",
			grpc(func(x *timer.Target) { x.Headers = map[string][]string{"a": {"ä"}} }),
			"target.headers.a",
			"ASCII",
		},
		{"a key and properties that vary", pulsar(func(x *timer.Target) {
			x.Templates, x.Pulsar.Key, x.Headers = true, "{{label.team}}-{{fire.id}}", map[string][]string{
				"due": {"{{due}}"},
			}
		}), "", ""},
		{
			"a key of an unknown variable",
			pulsar(func(x *timer.Target) { x.Templates, x.Pulsar.Key = true, "{{nope}}" }),
			"target.pulsar.key",
			"expected one of the variables app, attempt, cause, due, due.unix,",
		},
		{
			"a key that only looks like it",
			pulsar(func(x *timer.Target) { x.Pulsar.Key = "{{nope}}" }),
			"",
			"",
		},
		{
			"too long a key once it is expanded",
			pulsar(func(x *timer.Target) { x.Templates, x.Pulsar.Key = true, "{{label.long}}" }),
			"target.pulsar.key",
			"once variables",
		},
		{"a property of an unknown variable", pulsar(func(x *timer.Target) {
			x.Templates, x.Headers = true, map[string][]string{"a": {"{{nope}}"}}
		}), "target.headers.a", "expected one of the variables app, attempt, cause, due, due.unix,"},
		{
			"a property of two values",
			pulsar(func(x *timer.Target) { x.Headers = map[string][]string{"a": {"1", "2"}} }),
			"target.headers.a",
			"expected one value, as of any property of a message",
		},
		{
			"no topic",
			pulsar(func(x *timer.Target) { x.Pulsar = nil }),
			"target.pulsar.topic",
			"expected persistent://tenant/namespace/topic",
		},
		{
			"a short topic",
			pulsar(func(x *timer.Target) { x.Pulsar.Topic = "due" }),
			"target.pulsar.topic",
			"persistent://",
		},
		{
			"our own topic",
			pulsar(
				func(x *timer.Target) { x.Pulsar.Topic = "persistent://carillon/main/tasks-high" },
			),
			"target.pulsar.topic",
			"expected another namespace than Carillon's own",
		},
		{"our own topic by a URL", pulsar(func(x *timer.Target) {
			x.URL, x.Pulsar.Topic = "pulsar://broker.example:6650", "persistent://carillon/main/tasks-high"
		}), "target.pulsar.topic", "expected another namespace than Carillon's own"},
		{
			"a topic that is not listed",
			pulsar(func(x *timer.Target) { x.Pulsar.Topic = "persistent://bank/payments/x" }),
			"target.pulsar.topic",
			"callback-topics",
		},
		{"a topic of Pulsar", pulsar(func(x *timer.Target) {
			x.URL, x.Pulsar.Topic = "pulsar://broker.example:6650", "persistent://pulsar/system/x"
		}), "target.pulsar.topic", "own tenant"},
		{"a topic of Pulsar in a namespace of users", pulsar(func(x *timer.Target) {
			x.Pulsar.Topic = "persistent://shop/events/__change_events"
		}), "target.pulsar.topic", "does not begin with __"},
		{
			"a broker that is not listed",
			pulsar(func(x *timer.Target) { x.URL = "pulsar://other.example:6650" }),
			"target.url",
			"callback-pulsar-urls",
		},
		{
			"a broker that is none",
			pulsar(func(x *timer.Target) { x.URL = "http://a:1" }),
			"target.url",
			"pulsar://host:port",
		},
		{
			"TLS for pulsar",
			pulsar(func(x *timer.Target) { x.TLS = &timer.TLS{} }),
			"target.tls",
			"expected nothing for a target of kind pulsar",
		},
	}
	open, err := egress.NewTopics([]string{"pulsar://broker.example:6650"}, []string{"shop/a"})
	require.NoError(t, err)
	c := callback.Checks{
		Kinds: []timer.TargetKind{
			timer.KindHTTP,
			timer.KindGRPC,
			timer.KindPulsar,
		},
		Labels: map[string]string{
			"city":   "Köln",
			"team":   "till",
			"long":   strings.Repeat("x", timer.MaxLabelLen),
			"quotes": strings.Repeat(`"`, timer.MaxLabelLen),
		},
		OwnNamespace: "carillon/main",
		Topics:       open,
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			err := c.Target("target", &tt.target)
			if tt.field == "" {
				require.NoError(t, err)
				return
			}
			var e *timer.Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, timer.CodeInvalid, e.Code)
			require.Equal(t, tt.field, e.Field)
			require.Contains(t, e.Msg, tt.msg)
		})
	}
}

// TestTimersOwnValues checks that texts are expanded with the timer's app and name where these are
// known.
func TestTimersOwnValues(t *testing.T) {
	t.Parallel()
	grpc := timer.Target{
		Kind: timer.KindGRPC, URL: "grpc://example.com:80", Templates: true,
		Headers: map[string][]string{"x-timer": {"{{app}}/{{timer.name}}"}},
	}
	http := timer.Target{Kind: timer.KindHTTP, URL: "http://example.com/", Templates: true}
	host, path := http, http
	host.Headers = map[string][]string{"Host": {"{{timer.name}}.example.com"}}
	path.URL += "{{timer.name}}/"
	for _, tt := range []struct {
		app, name string
		target    *timer.Target
		field     string // empty: valid
	}{
		{"shop", "Büro 1", &grpc, "target.headers.x-timer"},
		{"Büro", "office", &grpc, "target.headers.x-timer"},
		{"shop", "office 1", &grpc, ""},
		{"", "", &grpc, ""},
		{"shop", "office/1", &host, "target.headers.Host"},
		{"shop", "office", &host, ""},
		{"shop", "..", &path, "target.url"},
		{"shop", "office", &path, ""},
	} {
		c := callback.Checks{Kinds: callback.Kinds(), App: tt.app, Name: tt.name}
		err := c.Target("target", tt.target)
		if tt.field == "" {
			require.NoError(t, err, tt.name)
			continue
		}
		var e *timer.Error
		require.ErrorAs(t, err, &e, tt.name)
		require.Equal(t, tt.field, e.Field)
	}
}

func TestCheckDefinition(t *testing.T) {
	t.Parallel()
	c := callback.Checks{}
	one := timer.Target{Kind: timer.KindHTTP, URL: "https://a.example/"}
	named := func(name string) timer.Target { x := one; x.Name = name; return x }
	async := one
	async.Async = timer.Duration(time.Hour)
	tests := []struct {
		name   string
		target timer.Target
		fan    timer.Fanout
		field  string
	}{
		{"one", one, timer.Fanout{}, ""},
		{
			"two",
			timer.Target{},
			timer.Fanout{Mode: timer.ModeAny, Targets: []timer.Target{one, async}},
			"",
		},
		{"none", timer.Target{}, timer.Fanout{}, "target.kind"},
		{"both", one, timer.Fanout{Mode: timer.ModeAny, Targets: []timer.Target{one}}, "targets"},
		{"a mode for one", one, timer.Fanout{Mode: timer.ModeAny}, "mode"},
		{"no mode", timer.Target{}, timer.Fanout{Targets: []timer.Target{one}}, "mode"},
		{
			"too many",
			timer.Target{},
			timer.Fanout{Mode: timer.ModeAll, Targets: make([]timer.Target, 9)},
			"targets",
		},
		{
			"the second is wrong",
			timer.Target{},
			timer.Fanout{Mode: timer.ModeAll, Targets: []timer.Target{one, {Kind: timer.KindHTTP}}},
			"targets[1].url",
		},
		{
			"async for all",
			timer.Target{},
			timer.Fanout{Mode: timer.ModeAll, Targets: []timer.Target{one, async}},
			"targets[1].async",
		},
		{
			"a name twice",
			timer.Target{},
			timer.Fanout{Mode: timer.ModeAll, Targets: []timer.Target{named("a"), named("a")}},
			"targets[1].name",
		},
		{
			"a name that is a place",
			timer.Target{},
			timer.Fanout{Mode: timer.ModeAll, Targets: []timer.Target{named("2"), one}},
			"targets[1].name",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var err error
			if bad := c.Definition(&tt.target, &tt.fan); len(bad) > 0 {
				err = bad[0]
			}
			if tt.field == "" {
				require.NoError(t, err)
				return
			}
			var e *timer.Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, tt.field, e.Field)
		})
	}
	c.Egress, c.Kinds = strictPolicy(), []timer.TargetKind{
		timer.KindHTTP,
		timer.KindGRPC,
		timer.KindPulsar,
	}
	for url, kind := range map[string]timer.TargetKind{
		"http://169.254.169.254/x": timer.KindHTTP, "https://[::1]/": timer.KindHTTP, "http://8.8.8.8:22/": timer.KindHTTP,
		"grpc://10.0.0.1:443": timer.KindGRPC, "pulsar://10.0.0.1:6650": timer.KindPulsar,
	} {
		err := c.Target(
			"target",
			&timer.Target{
				Kind:   kind,
				URL:    url,
				Pulsar: map[timer.TargetKind]*timer.PulsarTopic{timer.KindPulsar: {Topic: "persistent://a/b/c"}}[kind],
			},
		)
		require.ErrorContains(
			t,
			err,
			"target.url: expected an address that may be called, found ",
			url,
		)
		require.NotContains(t, err.Error(), "this address", url)
	}
	require.NoError(
		t,
		c.Target("target", &timer.Target{Kind: timer.KindHTTP, URL: "https://localhost/"}),
		"names are looked at when they are called",
	)
	require.NoError(t, callback.CheckSecretHeader("f", timer.KindHTTP, "Bearer x"))
	require.Error(t, callback.CheckSecretHeader("f", timer.KindHTTP, "a\r\nb"))
	require.Error(
		t,
		callback.CheckSecretHeader("f", timer.KindHTTP, strings.Repeat("x", timer.MaxSecretLen+1)),
	)
	require.NoError(t, callback.CheckSecretHeader("f", timer.KindHTTP, "Zürich"))
	require.ErrorContains(t, callback.CheckSecretHeader("f", timer.KindGRPC, "Zürich"), "ASCII")
}
