package definition_test

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/egress"
	"github.com/carillon-timer/carillon/libs/encryption"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/api"
	"github.com/carillon-timer/carillon/services/servicetest/apitest"
)

func TestV2RedactedKeepsTheSecret(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	cert, key := apitest.KeyPair(t)
	target := `"target":{"url":"https://example.com/a","secret_headers":{"X-Key":"hunter2"},"tls":{"cert":` + apitest.Text(
		t,
		cert,
	) + `,"key":` + apitest.Text(
		t,
		key,
	) + `},` +
		`"oauth2":{"token_url":"https://id.example.com/t","client_id":"me","secret":"hunter3","params":{"password":"hunter5","audience":"bills","none":""}}}`
	made := f.Create(t, 201, apitest.WithTarget(target, ""))
	id, err := timer.ParseID(made.ID)
	require.NoError(t, err)
	sealed := func() timer.Target {
		got, err := f.Store.Timer(t.Context(), "shop", id)
		require.NoError(t, err)
		return got.Definition.Target
	}
	had := sealed()
	require.Equal(t, map[string]string{"audience": "bills", "none": ""}, had.OAuth2.Params)
	require.Contains(t, had.OAuth2.SecretParams["password"], "cs1.")
	path := "/api/v2/timers/" + made.ID + "?app=shop"
	shown := apitest.Text(t, made.Target)
	require.Contains(t, shown, `"params":{"audience":"bills","none":"","password":"REDACTED"}`)
	edit := func(from, to string) string { return `{"target":` + strings.Replace(shown, from, to, 1) + `}` }
	f.Call(t, http.MethodPatch, path, edit("example.com/a", "example.com/b"), nil).
		Into(t, 200, &apitest.V2Timer{})
	require.Equal(t, "https://example.com/b", sealed().URL)
	require.Equal(t, had.SecretHeaders, sealed().SecretHeaders)
	require.Equal(t, had.TLS, sealed().TLS)
	require.Equal(t, had.OAuth2, sealed().OAuth2)
	f.Call(t, http.MethodPatch, path, edit(`{"X-Key":"REDACTED"}`, `{"x-key":"REDACTED","X-New":"hunter4"}`), nil).
		Into(t, 200, &apitest.V2Timer{})
	require.Equal(t, had.SecretHeaders["X-Key"], sealed().SecretHeaders["x-key"])

	// PUT by name behaves the same.
	f.Call(t, http.MethodPut, "/api/v2/timers", apitest.WithTarget(`"target":`+shown, ""), nil).
		Into(t, 200, &apitest.V2Timer{})
	require.Equal(t, had, sealed())

	for _, c := range []struct{ body, want string }{
		{edit("https://example.com/a", "https://evil.example.net/a"), "body.target.secret_headers.X-Key"},
		{edit("https://example.com/a", "http://example.com/a"), "body.target.secret_headers.X-Key"},
		{edit("https://id.example.com", "https://evil.example.net"), "body.target.oauth2.secret"},
		{`{"target":{"url":"https://evil.example.net/","oauth2":{"token_url":"https://id.example.com/t","client_id":"me","secret":"REDACTED"}}}`, "body.target.oauth2.secret"},
		{`{"target":{"kind":"pulsar","url":"pulsar://example.com:6650","pulsar":{"topic":"persistent://a/b/c"},"secret_headers":{"X-Key":"REDACTED"}}}`, "body.target.secret_headers.X-Key"},
		// The address is the same, but the server is another party's.
		{edit(`"url":`, `"headers":{"host":["evil.example.net"]},"url":`), "body.target.secret_headers.X-Key"},
		{edit(`"password":`, `"assertion":`), "body.target.oauth2.params.assertion"},
		{edit(`"X-Key":`, `"X-Other":`), "body.target.secret_headers.X-Other"},
	} {
		p := f.Problem(t, 422, http.MethodPatch, path, c.body)
		require.Equal(t, c.want, p.Errors[0].Location)
	}
	fresh := strings.Replace(apitest.WithTarget(`"target":`+shown, ""), `"bill"`, `"fresh"`, 1)
	for _, method := range []string{http.MethodPost, http.MethodPut} {
		p := f.Problem(t, 422, method, "/api/v2/timers", fresh)
		require.GreaterOrEqual(t, len(p.Errors), 3)
	}
	require.Equal(t, had, sealed())
}

// TestOlderTokenParametersAreHidden checks a definition from before parameters were encrypted. They
// are hidden, and an edit that keeps them encrypts them.
func TestOlderTokenParametersAreHidden(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	made := f.Create(t, 201, apitest.WithTarget(
		`"target":{"url":"https://example.com/","oauth2":{"token_url":"https://id.example.com/t","client_id":"me","secret":"hunter3"}}`,
		"",
	))
	id, err := timer.ParseID(made.ID)
	require.NoError(t, err)
	old, err := f.Store.Timer(t.Context(), "shop", id)
	require.NoError(t, err)
	d := old.Definition
	o := *d.Target.OAuth2
	o.Params = map[string]string{"password": "hunter5"}
	d.Target.OAuth2 = &o
	out, err := f.Store.Edit(
		t.Context(),
		[]store.Edit{{App: "shop", ID: id, Definition: d}},
		func(*timer.Timer, int64) (p store.Plan) { return p },
	)
	require.NoError(t, err)
	require.NoError(t, out[0].Err)
	path := "/api/v2/timers/" + made.ID + "?app=shop"
	shown := f.Call(t, http.MethodGet, path, "", nil)
	require.NotContains(t, shown.Body, "hunter5")
	var got apitest.V2Timer
	shown.Into(t, 200, &got)
	f.Call(t, http.MethodPatch, path, `{"target":`+apitest.Text(t, got.Target)+`}`, nil).
		Into(t, 200, &got)
	now, err := f.Store.Timer(t.Context(), "shop", id)
	require.NoError(t, err)
	require.Empty(t, now.Definition.Target.OAuth2.Params)
	require.Contains(t, now.Definition.Target.OAuth2.SecretParams["password"], "cs1.")
}

// TestSecretsStayWithTheTopic checks that a stored secret is not published to another topic.
func TestSecretsStayWithTheTopic(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t, func(o *api.Options) {
		o.OwnNamespace = "carillon/main"
		var err error
		o.Topics, err = egress.NewTopics(nil, []string{"public/default"})
		require.NoError(t, err)
	})
	target := func(topic, secret string) string {
		return `"target":{"kind":"pulsar","pulsar":{"topic":"persistent://public/default/` + topic +
			`"},"secret_headers":{"X-Key":"` + secret + `"}}`
	}
	made := f.Create(t, 201, apitest.WithTarget(target("x", "hunter2"), ""))
	path := "/api/v2/timers/" + made.ID + "?app=shop"
	f.Call(t, http.MethodPatch, path, "{"+target("x", "REDACTED")+"}", nil).
		Into(t, 200, &apitest.V2Timer{})
	p := f.Problem(t, 422, http.MethodPatch, path, "{"+target("y", "REDACTED")+"}")
	require.Equal(t, "body.target.secret_headers.X-Key", p.Errors[0].Location)
}

// TestSecretsAreNeverShown checks that no answer, log line or database file contains a secret.
func TestSecretsAreNeverShown(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	f := apitest.Setup(
		t,
		func(o *api.Options) { o.Logger = zerolog.New(&log).Level(zerolog.TraceLevel) },
	)
	secret := "hunter2-very-secret"
	good := apitest.WithTarget(
		`"target":{"url":"https://example.com/","secret_headers":{"X-K":"`+secret+`"},"oauth2":{"token_url":"https://id.example.com/","client_id":"me","secret":"`+secret+`","params":{"password":"`+secret+`"}}}`,
		"",
	)
	said := ""
	made := f.Create(t, 201, good)
	path := "/api/v2/timers/" + made.ID + "?app=shop"
	for _, c := range [][3]string{
		{"POST", "/api/v2/timers", good},
		{"PUT", "/api/v2/timers", good},
		{"GET", path, ""},
		{"GET", "/api/v2/timers?app=shop", ""},
		{"PATCH", path, `{"target":{"url":"` + "x" + `","secret_headers":{"X-K":"` + secret + `\n"}}}`},
		{"PATCH", path, `{"target":{"url":"https://example.com/","secret_headers":["` + secret + `"]}}`},
		{"PATCH", path, `{"target":{"url":"https://example.com/","secret_headers":"` + secret + `"}}`},
		{"PATCH", path, `{"target":{"url":"https://example.com/","secret_headers":{"X":{"` + secret + `":1}}}}`},
		{"PATCH", path, `{"target":{"url":"https://example.com/","oauth2":"` + secret + `"}}`},
		{"PATCH", path, `{"target":{"url":"https://example.com/","oauth2":{"params":"` + secret + `"}}}`},
		{"PATCH", path, `{"target":{"url":"https://example.com/","oauth2":{"params":{"password":["` + secret + `"]}}}}`},
		{"GET", "/api/v2/apps/shop/audit", ""},
		{"PATCH", path, `{"target":{"url":"https://example.com/","tls":{"cert":"x","key":"` + secret + `"}}}`},
		{"PATCH", path, `{"target":{"url":"https://example.com/","tls":["` + secret + `"]}}`},
		{"POST", "/api/v2/fires/1-1/complete", `{"token":"` + secret + `","status":"odd"}`},
		{"GET", "/api/timer/v1/def?app=shop&id=" + made.ID, ""},
	} {
		a := f.Call(t, c[0], c[1], c[2], nil)
		require.NotContains(t, a.Body, secret, c)
		said += a.Body
	}
	key := f.Call(t, http.MethodPost, "/api/v2/apps/shop/signing-keys", `{}`, nil)
	var signing struct{ Secret string }
	key.Into(t, 201, &signing)
	require.NotEmpty(t, signing.Secret)
	said += f.Call(t, http.MethodGet, "/api/v2/apps/shop/signing-keys", "", nil).Body
	require.NotContains(t, said, secret)
	require.NotContains(t, said, signing.Secret)
	require.NotContains(t, log.String(), secret)
}

func TestNoEncryptionKeys(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t, func(o *api.Options) { o.Secrets = nil })
	f.Create(t, 201, apitest.V2Body)
	p := f.Problem(
		t,
		422,
		http.MethodPost,
		"/api/v2/timers",
		apitest.WithTarget(
			`"target":{"url":"https://example.com/","secret_headers":{"X-K":"hunter2"},"async":"1m"}`,
			"",
		),
	)
	require.Len(t, p.Errors, 2)
	for _, e := range p.Errors {
		require.Contains(t, e.Message, "no encryption keys")
	}
	f.Problem(t, 422, http.MethodPost, "/api/v2/apps/shop/signing-keys", `{}`)
	f.Problem(
		t,
		403,
		http.MethodPost,
		"/api/v2/fires/1-1/complete",
		`{"token":"x","status":"delivered"}`,
	)
}

// TestV2AddressesAreChecked checks targets with an address against the rules of the deployment and
// the app.
func TestV2AddressesAreChecked(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t, func(o *api.Options) { o.Egress = egress.NewPolicy(egress.Options{}) })
	at := func(url string) string { return apitest.WithTarget(`"target":{"url":"`+url+`"}`, "") }
	for _, url := range []string{"http://127.0.0.1/", "http://169.254.169.254/", "http://10.1.2.3:8080/", "http://[::1]/"} {
		p := f.Problem(t, 422, http.MethodPost, "/api/v2/timers", at(url))
		require.Equal(t, "body.target.url", p.Errors[0].Location)
	}
	_, err := f.Store.PutSettings(
		t.Context(),
		"shop",
		store.AppSettings{Allow: []string{"10.0.0.0/8:8080"}},
		0,
	)
	require.NoError(t, err)
	f.Create(t, 201, at("http://10.1.2.3:8080/"))
	f.Problem(
		t,
		422,
		http.MethodPost,
		"/api/v2/timers",
		strings.Replace(at("http://10.1.2.3:8080/"), "shop", "desk", 1),
	)
}

// TestIdempotencyKeysSurviveAKeyRotation checks that a repeated request is recognized, whichever
// encryption key is first by then.
func TestIdempotencyKeysSurviveAKeyRotation(t *testing.T) {
	t.Parallel()
	k1, k2 := encryption.NewKey("k1").Reveal(), encryption.NewKey("k2").Reveal()
	ring := func(text string) func(*api.Options) {
		r, err := encryption.ParseKeyring(encryption.NewSecret(text))
		require.NoError(t, err)
		return func(o *api.Options) { o.Secrets = r }
	}
	before := apitest.Setup(t, ring(k1+","+k2))
	body := func(secret string) string {
		return apitest.WithTarget(
			`"target":{"url":"https://example.com/","secret_headers":{"X-K":"`+secret+`"},"oauth2":{"token_url":"https://id.example.com/","client_id":"me","secret":"`+secret+`"}}`,
			"",
		)
	}
	create := func(f *apitest.Fixture, key, body string) apitest.Answer {
		return f.Call(
			t,
			http.MethodPost,
			"/api/v2/timers",
			body,
			map[string]string{"Idempotency-Key": key},
		)
	}
	var made, again apitest.V2Timer
	create(before, "a", body("hunter2")).Into(t, 201, &made)
	after := apitest.Setup(t, ring(k2+","+k1), func(o *api.Options) { o.Store = before.Store })
	create(after, "a", body("hunter2")).Into(t, 200, &again)
	require.Equal(t, made.ID, again.ID)
	require.Equal(
		t,
		409,
		create(after, "a", body("hunter3")).Status,
		"another secret is another request",
	)
	require.Equal(t, 409, create(after, "a", apitest.V2Body).Status)
	named := func(body string) string { return strings.Replace(body, `"bill"`, `"other"`, 1) }
	create(after, "b", named(body("hunter2"))).Into(t, 201, &made)
	create(before, "b", named(body("hunter2"))).Into(t, 200, &again)
	require.Equal(t, made.ID, again.ID, "while both are about")
}

func TestSecretsAreEncryptedUnderTheFirstKey(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "ring")
	require.NoError(
		t,
		os.WriteFile(
			dir,
			[]byte(encryption.NewKey("k2").Reveal()+"\n"+encryption.NewKey("k1").Reveal()),
			0o600,
		),
	)
	r, err := encryption.LoadKeyring(dir)
	require.NoError(t, err)
	f := apitest.Setup(t, func(o *api.Options) { o.Secrets = r })
	made := f.Create(
		t,
		201,
		apitest.WithTarget(
			`"target":{"url":"https://example.com/","secret_headers":{"X-K":"hunter2"}}`,
			"",
		),
	)
	id, err := timer.ParseID(made.ID)
	require.NoError(t, err)
	got, err := f.Store.Timer(t.Context(), "shop", id)
	require.NoError(t, err)
	opened, err := r.Open(
		got.Definition.Target.SecretHeaders["X-K"],
		encryption.Binding{App: "shop", Use: encryption.UseTarget},
	)
	require.NoError(t, err)
	require.Equal(t, "hunter2", opened.Reveal())
	require.Contains(t, string(got.Definition.Target.SecretHeaders["X-K"]), ".k2.")
}
