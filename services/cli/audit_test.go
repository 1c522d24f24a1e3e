package cli_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/services/servicetest/devtest"
)

func TestAudit(t *testing.T) {
	t.Parallel()
	d := devtest.Start(t, t.TempDir())
	defer d.Stop(t)
	u := newUser(t, d.Api)
	u.do("timer", "create", "bill", "--cron", "0 9 * * *", "--url", "https://example.com/")
	u.do("timer", "run", "bill")
	u.do("timer", "pause", "bill", "--reason", "moves")
	u.do("timer", "delete", "bill", "--yes")
	list := u.do("audit")
	require.Regexp(t, `AT +ACTOR +ACTION +KIND +RESOURCE +CHANGED`, list)
	require.Regexp(t, `anonymous +delete +timer +bill`, list)
	require.Regexp(t, `anonymous +pause +timer +bill +reason, active→paused`, list)
	require.Regexp(t, `anonymous +run +timer +bill +-?\s*\n`, list, "it changes no field")
	require.Regexp(t, `anonymous +create +timer +bill`, list)
	require.NotContains(t, u.do("audit", "--action", "pause"), "delete")
	require.Regexp(
		t,
		`bill.* 127\.0\.0\.1 +[0-9a-f]{32}`,
		u.do("audit", "--timer", "bill", "-o", "wide"),
	)
	require.Contains(t, u.do("audit", "--from", "-1h", "-o", "yaml"), "specs:")
	require.NotContains(t, u.do("audit", "--to", "-1h"), "bill")
	require.NotContains(t, u.do("audit", "--deployment"), "bill")
	require.Contains(t, u.refused("audit", "--kind", "nothing"), "kind")
}
