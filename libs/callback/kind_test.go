package callback_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/callback"
	"github.com/carillon-timer/carillon/libs/timer"
)

// TestEveryKindIsComplete checks that each kind of the domain can be checked, described and called.
func TestEveryKindIsComplete(t *testing.T) {
	t.Parallel()
	file, err := parser.ParseFile(token.NewFileSet(), "../timer/target.go", nil, 0)
	require.NoError(t, err)
	docs, outcomes := callback.Describe()
	callers, closeAll, err := callback.NewCallers(callback.CallerOptions{Publisher: &publisher{}})
	require.NoError(t, err)
	defer closeAll()
	found := 0
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if kind, ok := spec.Type.(*ast.Ident); !ok || kind.Name != "TargetKind" {
			return true
		}
		text, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		require.NoError(t, err)
		name := timer.TargetKind(text)
		if name == timer.KindCanary { // Carillon's own
			return true
		}
		found++
		const hint = "%s is not in the list of kinds in libs/callback/kind.go: CONTRIBUTING.md lists what a kind needs"
		require.Contains(t, callback.Kinds(), name, hint, name)
		require.NotEmpty(t, docs[name], hint, name)
		require.NotEmpty(t, outcomes[name], hint, name)
		require.NotNil(t, callers[name], hint, name)
		require.True(t, callback.Known(name), hint, name)
		return true
	})
	require.Len(t, callback.Kinds(), found, "a kind is no constant of libs/timer/target.go")
}

// TestTopics checks what a call publishes to, on which the secrets of an edited target depend.
func TestTopics(t *testing.T) {
	t.Parallel()
	const topic = "persistent://shop/events/due"
	target := timer.Target{Kind: timer.KindPulsar, Pulsar: &timer.PulsarTopic{Topic: topic}}
	require.Equal(t, topic, callback.Topic(&target))
	for _, kind := range append(callback.Kinds(), timer.KindCanary, "later") {
		require.Empty(t, callback.Topic(&timer.Target{Kind: kind}), kind)
	}
	require.True(t, callback.Known(timer.KindCanary))
	require.False(t, callback.Known("later"))
}

// TestEndpoints checks that each listener has one name, and that names, which are logged, have no
// credentials.
func TestEndpoints(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"https://user:pass@example.com/a": "example.com:443",
		"https://example.com:443":         "example.com:443",
		"HTTPS://Example.com":             "example.com:443",
		"http://example.com":              "example.com:80",
		"https://example.com:8443?x=1":    "example.com:8443",
		"http://[::1]/a":                  "[::1]:80",
		"http://[::1]:8080":               "[::1]:8080",
		"":                                "",
	} {
		require.Equal(t, want, callback.Endpoint(&timer.Target{Kind: timer.KindHTTP, URL: url}))
	}
	require.Empty(t, callback.Endpoint(&timer.Target{Kind: timer.KindPulsar}))
}

// TestErrorsOfEveryFieldAtOnce checks that one pass finds the first error of each field, and that an
// invalid URL makes no other field invalid.
func TestErrorsOfEveryFieldAtOnce(t *testing.T) {
	t.Parallel()
	bad := (&callback.Checks{}).Definition(&timer.Target{
		Kind:      timer.KindHTTP,
		URL:       "nowhere",
		Method:    "CONNECT",
		Headers:   map[string][]string{"Connection": {"x"}, "Upgrade": {"x"}},
		Redirects: -1,
		TLS:       &timer.TLS{ServerName: "example.com"},
		Async:     -1,
	}, &timer.Fanout{})
	var fields []string
	for _, e := range bad {
		fields = append(fields, e.Field)
	}
	require.ElementsMatch(t, []string{
		"target.url", "target.method", "target.headers.Connection", "target.headers.Upgrade",
		"target.redirects", "target.async",
	}, fields)
}
