package wiring

import (
	"io"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/config"
	"github.com/carillon-timer/carillon/libs/peers"
)

// TestSharedSettingsExist checks that a setting that was renamed is still compared.
func TestSharedSettingsExist(t *testing.T) {
	t.Parallel()
	s := &Settings{}
	var parts []config.Part
	for _, part := range slices.Concat(
		s.common(), s.servers(), API().Needs(s), Migrator().Needs(s), Executor().Needs(s),
	) {
		if !slices.Contains(parts, part) {
			parts = append(parts, part)
		}
	}
	var names []string
	for _, v := range config.NewSet("test", parts...).Values() {
		names = append(names, v.Name)
	}
	require.Subset(t, names, append(sharedSettings, peers.EncryptionKeys))
}

// sharedWith returns what a process with these settings of the callbacks compares with others.
func sharedWith(t *testing.T, env map[string]string) map[string]string {
	t.Helper()
	s := &Settings{}
	set := config.NewSet("test", &s.Callback, &s.Gateway, &s.Tracing)
	read := func(key string) (string, bool) { v, ok := env[key]; return v, ok }
	require.NoError(t, set.Load(nil, read, io.Discard))
	return (&Kit{Settings: s, values: set.Values()}).sharedSettings()
}

// TestSharedSettingsHaveOneForm checks that texts with the same effect are no difference, and that
// others are one.
func TestSharedSettingsHaveOneForm(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, one, same, other string }{
		{"CALLBACK_ALLOW_PRIVATE", "", "false", "true"},
		{"CALLBACK_ALLOW_PRIVATE", "auto", "0", "1"},
		{
			"CALLBACK_ALLOW", "a.internal:80,443, 10.0.0.0/8", "10.0.0.0/8  a.internal:80,443,10.0.0.0/8",
			"a.internal:80, 10.0.0.0/8",
		},
		{"CALLBACK_TOPICS", "a/b,c/d", " c/d, a/b ,c/d,", "a/b"},
		{"CALLBACK_PULSAR_URLS", "pulsar://a:1,pulsar://b:1", "pulsar://b:1, pulsar://a:1", "pulsar://a:1"},
		{"TRACE_KEEP", "late,failed", "failed,late,late", "late"},
		{"TRUST_HEADER", "X-App", "x-app", "X-Caller"},
	} {
		shared := func(text string) map[string]string {
			env := map[string]string{"CARILLON_" + c.name: text}
			if c.name == "TRUST_HEADER" {
				env["CARILLON_TRUST_FROM"] = "10.0.0.0/8"
			}
			return sharedWith(t, env)
		}
		require.Equal(t, shared(c.one), shared(c.same), c.name)
		require.NotEqual(t, shared(c.one), shared(c.other), c.name)
	}
}
