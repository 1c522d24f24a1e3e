package timers_test

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/api"
	"github.com/carillon-timer/carillon/services/servicetest/apitest"
)

// racing is a store in which a caller does something after the first read of a timer by its name.
type racing struct {
	api.Store

	between atomic.Pointer[func()]
}

func (r *racing) TimerByName(ctx context.Context, app, name string) (timer.Timer, error) {
	t, err := r.Store.TimerByName(ctx, app, name)
	if do := r.between.Swap(nil); do != nil {
		(*do)()
	}
	return t, err
}

// TestRedactedUndoesNoRotation checks that a definition with REDACTED keeps the secret that is stored
// when it is written: another caller changes the secret after it was read.
func TestRedactedUndoesNoRotation(t *testing.T) {
	t.Parallel()
	ring := apitest.Keyring(t)
	r := &racing{}
	f := apitest.Setup(t, func(o *api.Options) {
		o.Secrets = ring
		r.Store, o.Store = o.Store, r
	})
	target := func(secret, body string) string {
		return `{"url":"https://example.com/","secret_headers":{"Authorization":"` + secret +
			`"},"body":"` + body + `"}`
	}
	whole := func(name, secret, body string) string {
		return strings.Replace(apitest.TimerWith(`{"kind":"cron","specs":["@daily"]}`,
			target(secret, body), ""), `"bill"`, `"`+name+`"`, 1)
	}
	const redacted = "REDACTED"
	for name, write := range map[string]func(string, map[string]string) (status int, answer string){
		"put": func(name string, header map[string]string) (int, string) {
			a := f.Call(t, http.MethodPut, "/api/v2/timers", whole(name, redacted, "new"), header)
			return a.Status, a.Body
		},
		"batch": func(name string, _ map[string]string) (int, string) {
			got := batch(t, f, `,"put":true`, whole(name, redacted, "new"))
			require.Equal(t, "existed", got.Items[0].Result)
			return http.StatusOK, ""
		},
		"import": func(name string, _ map[string]string) (int, string) {
			got := importInto(t, f, "shop", "", whole(name, redacted, "new"))
			require.Equal(t, 1, got.Changed)
			return http.StatusOK, ""
		},
	} {
		writes := map[string]int{"": http.StatusOK}
		if name == "put" {
			writes["*"], writes[`"1", "2"`] = http.StatusOK, http.StatusOK
			writes[`"1"`] = http.StatusPreconditionFailed
		}
		for match, want := range writes {
			timerName := name + "-" + strings.ReplaceAll(match, `"`, "")
			tm := f.Create(t, 201, whole(timerName, "old key", "old"))
			rotate := func() {
				f.Do(t, 200, http.MethodPatch, apitest.TimerPath(tm.ID, ""),
					`{"target":`+target("new key", "old")+`}`)
			}
			r.between.Store(&rotate)
			header := map[string]string{}
			if match != "" {
				header["If-Match"] = match
			}
			status, answer := write(timerName, header)
			require.Equal(t, want, status, answer)
			require.Nil(t, r.between.Load())
			_, secret := f.Stored(t, ring, timerName)
			require.Equal(t, "new key", secret, timerName)
			now := f.Do(t, 200, http.MethodGet, apitest.TimerPath(tm.ID, ""), "")
			if want == http.StatusOK {
				require.Equal(t, 3, now.Version)
				require.Equal(t, "new", now.Target["body"])
			} else {
				require.Equal(t, "old", now.Target["body"])
			}
		}
	}
}
