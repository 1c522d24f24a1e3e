package ui_test

import (
	"html"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/services/api/ui"
	"github.com/carillon-timer/carillon/services/servicetest/apitest"
)

// TestCompleteAFire checks that a viewer can complete an accepted fire with its token only.
func TestCompleteAFire(t *testing.T) {
	t.Parallel()
	e := apitest.NewExecutor(t)
	p := open(t, e.Fixture, true)
	fire := e.Held(t, "shop", "bill", 1)[0]
	path := "/ui/apps/shop/fires/" + fire.FireID.String()
	require.NotContains(t, p.shown(path), `name="token"`)
	e.Accept(t, fire)
	require.Contains(t, p.shown(path), `name="token"`)
	w := p.post(path+"/complete", own, url.Values{"token": {"guess"}, "status": {"delivered"}})
	require.Equal(t, http.StatusForbidden, w.Code)
	require.Contains(t, w.Body.String(), "the token is not one of this fire")
	require.Contains(t, w.Body.String(), `name="token"`)
	w = p.post(path+"/complete", own, url.Values{
		"token": {e.Tokens.Token(fire.FireID, 1)}, "status": {"delivered"},
	})
	require.Equal(t, path+"?did=complete", w.Header().Get("Location"), "%s", w.Body)
	require.Contains(t, p.shown(path), `<span class="badge delivered">`)
}

// TestClockChangesAreMarked checks the instants of a timer around a change of its zone's clocks.
func TestClockChangesAreMarked(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	made := f.Create(t, http.StatusCreated, apitest.TimerWith(
		`{"kind":"cron","specs":["0 9 * * *"],"time_zone":"Europe/Berlin"}`, target,
		`,"status":"active"`))
	now := time.Date(2027, 3, 26, 12, 0, 0, 0, time.UTC)
	page, err := ui.New(ui.Options{
		API: f.Api.Handler(), Keyless: true, Now: func() time.Time { return now },
	})
	require.NoError(t, err)
	p := &pages{t: t, page: page}
	require.Regexp(t, `2027-03-27 09:00:00 \+01:00</time></a></li><li>`+
		`.*2027-03-28 09:00:00 \+02:00</time></a> <span class="badge skipped">clocks changed</span></li><li>`,
		html.UnescapeString(p.shown("/ui/apps/shop/timers/"+made.ID)))
}

// TestTimersThatDoNotRepeatHaveNoWarning checks that a timer which is rightly due no more, or after
// its present fire, is not called faulty.
func TestTimersThatDoNotRepeatHaveNoWarning(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	p := open(t, f, true)
	for name, c := range map[string]struct {
		schedule string
		warned   bool
	}{
		"fixed delay": {`{"kind":"fixed_delay","every":"1h"}`, false},
		"one-shot":    {`{"kind":"delay","delay":"1ms"}`, false},
		"ended": {
			`{"kind":"cron","specs":["0 9 * * *"],"end_at":"2020-01-01T00:00:00Z"}`, true,
		},
	} {
		body := apitest.TimerWith(c.schedule, target, `,"status":"active"`)
		made := f.Create(t, http.StatusCreated, strings.Replace(body, "bill", name, 1))
		require.Equal(t, c.warned,
			strings.Contains(p.shown("/ui/apps/shop/timers/"+made.ID), "never due"), name)
	}
}
