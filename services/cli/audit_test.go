package cli_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
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

// TestAuditShowsFieldsOfOneSide checks that fields are named which an update set or removed.
func TestAuditShowsFieldsOfOneSide(t *testing.T) {
	t.Parallel()
	for change, want := range map[string]string{
		`"before":{"concurrent":2,"version":1},"after":{"version":2}`: `concurrent`,
		`"before":{"concurrent":2},"after":{}`:                        `concurrent`,
		`"before":{"concurrent":2}`:                                   `concurrent`,
		`"after":{"rate":2,"burst":3}`:                                `burst, rate`,
		`"before":{"rate":2,"burst":3},"after":{"rate":2,"allow":[]}`: `allow, burst`,
		`"before":{},"after":{}`:                                      `-`,
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintf(w, `{"items":[{"action":"update","kind":"settings","resource":"shop",%s}],`+
				`"next_cursor":""}`, change)
		}))
		require.Regexp(
			t,
			`settings +shop +`+want+` *\n`,
			newUser(t, server.URL).do("audit"),
			change,
		)
		server.Close()
	}
}
