package api_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Limits hold once variables are put in: labels are known when a timer is made, and when either is changed.
func TestV2LimitsHoldOnceVariablesArePutIn(t *testing.T) {
	t.Parallel()
	f := setup(t)
	short, long := `"labels":{"x":"y"},`, `"labels":{"x":"`+strings.Repeat("x", 256)+`"},`
	for field, target := range map[string]string{
		"body":    `"url":"https://example.com/","body":"` + strings.Repeat("{{label.x}}", 20_000) + `"`,
		"url":     `"url":"https://example.com/` + strings.Repeat("{{label.x}}", 100) + `"`,
		"query":   `"url":"https://example.com/","query":{"q":["` + strings.Repeat("{{label.x}}", 100) + `"]}`,
		"headers": `"url":"https://example.com/","headers":{"X-A":["` + strings.Repeat("{{label.x}}", 600) + `"]}`,
	} {
		body := strings.Replace(withTarget(`"target":{"templates":true,`+target+`}`, long), "bill", field, 1)
		p := f.problem(t, 422, http.MethodPost, "/api/v2/timers", body)
		require.Len(t, p.Errors, 1, field)
		require.Equal(t, "body.target."+field, p.Errors[0].Location)

		var made v2Timer
		f.call(t, http.MethodPost, "/api/v2/timers", strings.Replace(body, long, short, 1), nil).into(t, 201, &made)
		p = f.problem(t, 422, http.MethodPatch, timerPath(made.ID, ""), "{"+strings.TrimSuffix(long, ",")+"}")
		require.Equal(t, "body.target."+field, p.Errors[0].Location, "by a change of the labels")
	}
}
