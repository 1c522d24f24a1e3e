package ui_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/services/servicetest/apitest"
)

func TestListOfJobs(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	p := open(t, f, true)
	require.Contains(t, p.shown("/ui/apps/shop/jobs"), "no jobs")
	f.Active(t, "any", `{"kind":"cron","specs":["@hourly"]}`)
	for range 51 {
		a := f.Call(t, http.MethodPost, "/api/v2/apps/shop/jobs",
			`{"action":"pause","filter":{"name_contains":"<b>"}}`, nil)
		var job struct{ ID string }
		a.Into(t, http.StatusAccepted, &job)
		w := p.post("/ui/apps/shop/jobs/"+job.ID+"/cancel", own, nil)
		require.Equal(t, http.StatusSeeOther, w.Code)
	}
	body := p.shown("/ui/apps/shop/jobs")
	require.Equal(t, 50, strings.Count(body, `<span class="badge cancelled">`))
	require.Contains(t, body, "name_contains=&lt;b&gt;")
	_, next, _ := strings.Cut(body, `<a rel="next" href="`)
	next, _, _ = strings.Cut(next, `"`)
	require.Equal(t, 1, strings.Count(p.shown(next), `<span class="badge cancelled">`))
}
