package cli_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/services/servicetest/devtest"
)

func TestEndSessions(t *testing.T) {
	t.Parallel()
	d := devtest.Start(
		t, t.TempDir(),
		"CARILLON_OIDC_ISSUER", "http://127.0.0.1:1", // nobody asks it
		"CARILLON_OIDC_CLIENT_ID", "page",
		"CARILLON_OIDC_ROLES", "dev=editor@shop",
		"CARILLON_AUTH", "off",
	)
	defer d.Stop(t)
	u := newUser(t, d.Api)
	require.Regexp(t, `^sessions of ada from before \S+.* would be ended\n$`,
		u.do("person", "end-sessions", "ada", "--dry-run"))
	require.NotContains(t, u.do("audit", "--deployment"), "ada")
	require.Regexp(t, `^sessions of ada from before \S+.* ended\nsessions of bob .* ended\n$`,
		u.do("person", "end-sessions", "ada", "bob"))
	list := u.do("audit", "--deployment", "--kind", "person")
	require.Regexp(t, `anonymous +end_sessions +person +bob`, list)
	require.Regexp(t, `anonymous +end_sessions +person +ada`, list)
	require.Contains(t, u.refused("person", "end-sessions", ""), "argument 1 is empty")
}
