package timers_test

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/api"
	"github.com/carillon-timer/carillon/services/servicetest/apitest"
)

// edited is a store in which another caller does something just before the next change of status.
type edited struct {
	api.Store

	before atomic.Pointer[func()]
}

func (e *edited) SetStatus(
	ctx context.Context, cs []store.StatusChange, plan store.Planner,
) ([]store.StatusResult, error) {
	if do := e.before.Swap(nil); do != nil {
		(*do)()
	}
	return e.Store.SetStatus(ctx, cs, plan)
}

// TestStatusBelongsToItsDefinition edits and activates a timer by one request, while another caller
// edits it in between and wants it to stay inactive. What becomes active must be the definition of the
// request, and never the other one.
func TestStatusBelongsToItsDefinition(t *testing.T) {
	t.Parallel()
	e := &edited{}
	f := apitest.Setup(t, func(o *api.Options) { e.Store, o.Store = o.Store, e })
	target := func(body string) string {
		return `{"url":"https://example.com/","body":"` + body + `"}`
	}
	whole := func(name, body, status string) string {
		return strings.Replace(apitest.TimerWith(`{"kind":"cron","specs":["@daily"]}`,
			target(body), `,"status":"`+status+`"`), `"bill"`, `"`+name+`"`, 1)
	}
	for _, method := range []string{http.MethodPut, http.MethodPatch} {
		for match, want := range map[string]int{
			"":    http.StatusOK,
			`*`:   http.StatusOK,
			`"1"`: http.StatusPreconditionFailed,
		} {
			name := strings.ToLower(method) + "-" + strings.ReplaceAll(match, `"`, "")
			tm := f.Create(t, 201, whole(name, "old", "inactive"))
			other := func() {
				f.Do(t, 200, http.MethodPut, "/api/v2/timers", whole(name, "other", "inactive"))
			}
			e.before.Store(&other)
			header := map[string]string{}
			if match != "" {
				header["If-Match"] = match
			}
			path, body := "/api/v2/timers", whole(name, "mine", "active")
			if method == http.MethodPatch {
				path = apitest.TimerPath(tm.ID, "")
				body = `{"target":` + target("mine") + `,"status":"active"}`
			}
			answer := f.Call(t, method, path, body, header)
			require.Equal(t, want, answer.Status, "%s: %s", name, answer.Body)
			require.Nil(t, e.before.Load())
			now := f.Do(t, 200, http.MethodGet, apitest.TimerPath(tm.ID, ""), "")
			if want == http.StatusOK {
				require.Equal(t, "mine", now.Target["body"], name)
				require.Equal(t, string(timer.StatusActive), now.Status, name)
			} else {
				require.Equal(t, "other", now.Target["body"], name)
				require.Equal(t, string(timer.StatusInactive), now.Status, name)
			}
		}
	}
}
