package history_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/api"
	"github.com/carillon-timer/carillon/services/servicetest/apitest"
)

const session timer.ID = 77

// listed is a fire of a list, or of an event.
type listed struct {
	ID, Due, Status, Reason string
	TimerName               string `json:"timer_name"`
	LatenessMS              int64  `json:"lateness_ms"`
	FinishedAt              string `json:"finished_at"`
}

// app is a fixture with an executor's session and fires of an app.
type app struct {
	*apitest.Fixture
}

func setup(t *testing.T, change ...func(*api.Options)) *app {
	t.Helper()
	a := &app{apitest.Setup(t, change...)}
	require.NoError(
		t,
		a.Store.OpenSession(
			t.Context(),
			store.Session{ID: session, Kind: store.ExecutorSession, Name: "test"},
		),
	)
	return a
}

// timer creates a timer that is due each second, with a label, and claims n of its fires.
func (a *app) timer(t *testing.T, name, team string, n int) []timer.Fire {
	t.Helper()
	before := len(a.Dispatched.All())
	a.Create(t, 201, strings.Replace(
		apitest.With(`{"kind":"cron","specs":["* * * * * *"]}`,
			`"status":"active","labels":{"team":"`+team+`"}`), "bill", name, 1))
	won, err := a.Store.Claim(t.Context(), session, a.Dispatched.All()[before:before+n])
	require.NoError(t, err)
	require.Len(t, won, n)
	return won
}

// finish records an outcome per fire. Two finish at one instant, the last pair at end.
func (a *app) finish(t *testing.T, fires []timer.Fire, end time.Time) []timer.Outcome {
	t.Helper()
	var outcomes []timer.Outcome
	for i, f := range fires {
		o := timer.Outcome{
			Fire:     f,
			Kind:     timer.Delivered,
			UntilMS:  f.DueMS,
			Count:    1,
			Attempts: 1,
			FinishedMS: end.UnixMilli() - int64(
				(len(fires)-1-i)/2,
			)*1000,
			LatenessMS: int64(i * 100),
		}
		switch i % 3 {
		case 1:
			o.Kind, o.Reason = timer.Failed, timer.ReasonExhausted
		case 2:
			o.Kind, o.Reason, o.Attempts, o.LatenessMS = timer.Skipped, timer.ReasonPaused, 0, 0
		}
		outcomes = append(outcomes, o)
	}
	lost, _, err := a.Store.Record(t.Context(), session, outcomes, nil)
	require.NoError(t, err)
	require.Empty(t, lost)
	return outcomes
}

// list reads all pages of the app's fires.
func (a *app) list(t *testing.T, query string, limit int) (all []listed) {
	t.Helper()
	for cursor := ""; ; {
		var page struct {
			Items []listed
			Next  string `json:"next_cursor"`
		}
		a.Call(t, http.MethodGet, fmt.Sprintf(
			"/api/v2/apps/shop/fires?limit=%d&cursor=%s&%s", limit, cursor, query), "", nil).
			Into(t, 200, &page)
		require.LessOrEqual(t, len(page.Items), limit)
		all = append(all, page.Items...)
		if cursor = page.Next; cursor == "" {
			return all
		}
	}
}

func TestFiresOfAnApp(t *testing.T) {
	t.Parallel()
	a := setup(t)
	end := time.Now().Truncate(time.Second)
	outcomes := a.finish(t, a.timer(t, "one", "pay", 12), end)
	outcomes = append(outcomes, a.finish(t, a.timer(t, "two", "web", 12), end)...)
	for _, limit := range []int{1, 5, 1000} {
		newest := a.list(t, "", limit)
		require.Len(t, newest, len(outcomes))
		for i, f := range newest {
			require.NotEmpty(t, f.TimerName)
			if i > 0 {
				require.LessOrEqual(t, f.FinishedAt, newest[i-1].FinishedAt)
			}
		}
		oldest := a.list(t, "order=oldest", limit)
		require.Equal(t, newest[0], oldest[len(oldest)-1])
	}
	two := outcomes[12].Timer.String()
	for query, want := range map[string]int{
		"state=failed":                      8,
		"state=failed,skipped":              16,
		"reason=paused":                     8,
		"cause=schedule":                    24,
		"cause=backfill":                    0,
		"timer=one":                         12,
		"timer=" + two:                      12,
		"timer=two&state=skipped":           4,
		"labels=team%3Dpay":                 12,
		"labels=team+in+(pay,web),!x":       24,
		"labels=team%3Dpay&state=failed":    4,
		"min_lateness=300ms":                12,
		"max_lateness=0s":                   2,
		"finished_to=" + apitest.RFC(end):   20,
		"finished_from=" + apitest.RFC(end): 4,
		"finished_to=1970-01-01T00:00:00Z":  0,
		"finished_from=1969-01-01T00:00:00Z&finished_to=1970-01-01T00:00:00Z": 0,
		"due_to=" + apitest.RFC(end.Add(-1e12)):                               0,
	} {
		require.Len(t, a.list(t, query, 7), want, query)
	}
	for query, field := range map[string]string{
		"min_lateness=x":                                            "query.min_lateness",
		"min_lateness=2s&max_lateness=1s":                           "query.max_lateness",
		"labels=" + url.QueryEscape("a=b="):                         "query.labels",
		"finished_from=now":                                         "query.finished_from",
		"due_from=2026-01-02T00:00:00Z&due_to=2026-01-01T00:00:00Z": "query.due_to",
		"cursor=x": "query.cursor",
	} {
		p := a.Problem(t, 422, http.MethodGet, "/api/v2/apps/shop/fires?"+query, "")
		require.Equal(t, field, p.Errors[0].Location, query)
	}
	for _, name := range []string{"nobody", "4711"} {
		a.Problem(t, 404, http.MethodGet, "/api/v2/apps/shop/fires?timer="+name, "")
		a.Problem(t, 404, http.MethodGet, "/api/v2/apps/shop/stats?timer="+name, "")
	}
	a.Problem(t, 404, http.MethodGet, "/api/v2/apps/desk/fires?timer="+two, "")

	// A deleted timer's fires stay.
	require.Equal(t, 204, a.Call(t, http.MethodDelete, apitest.TimerPath(two, ""), "", nil).Status)
	require.GreaterOrEqual(t, len(a.list(t, "", 100)), 24)
	require.GreaterOrEqual(t, len(a.list(t, "timer="+two, 100)), 12)
	a.Problem(t, 404, http.MethodGet, "/api/v2/apps/shop/fires?timer=two", "")
}

type counted struct {
	Delivered, Failed, Skipped int64
	Reasons                    map[string]int64
	Lateness                   map[string]int64
}

type statistics struct {
	CompleteFrom string `json:"complete_from"`
	Truncated    bool
	From, To     string
	Total        counted
	Steps        []struct {
		Begin string
		counted
	}
}

func TestStatsCountWhatWasRecorded(t *testing.T) {
	t.Parallel()
	a := setup(t)
	end := time.Now().Truncate(time.Minute).Add(-time.Minute)
	a.finish(t, a.timer(t, "one", "pay", 30), end.Add(3*time.Second))
	a.finish(t, a.timer(t, "two", "web", 30), end.Add(3*time.Second))
	stats := func(query string) (got statistics) {
		t.Helper()
		a.Call(t, http.MethodGet, "/api/v2/apps/shop/stats?"+query, "", nil).Into(t, 200, &got)
		return got
	}
	all := stats("")
	require.False(t, all.Truncated)
	require.Equal(t, all.From, all.CompleteFrom)
	require.EqualValues(t, 20, all.Total.Delivered)
	require.EqualValues(t, 20, all.Total.Failed)
	require.EqualValues(t, 20, all.Total.Skipped)
	require.Equal(t, map[string]int64{"exhausted": 20, "paused": 20}, all.Total.Reasons)
	require.Len(t, all.Steps, 2)
	require.Equal(t, apitest.RFC(end.Add(-time.Minute)), all.Steps[0].Begin)
	require.Equal(t, apitest.RFC(end), all.Steps[1].Begin)
	require.InDelta(t, 2800, all.Total.Lateness["max_ms"], 2800/32)
	require.GreaterOrEqual(t, all.Total.Lateness["max_ms"], int64(2800))
	require.InDelta(t, 1300, all.Total.Lateness["p50_ms"], 100+1300/32)
	one := stats("timer=one")
	require.EqualValues(t, 10, one.Total.Failed)
	require.Equal(t, one.Total, stats("labels=team%3Dpay").Total)
	require.Equal(t, one.Steps, stats("labels=team%3Dpay").Steps)
	hours := stats("step=1h&from=" + apitest.RFC(end.Add(-24*time.Hour)))
	require.Equal(t, all.Total, hours.Total)
	quarters := stats("step=15m&from=" + apitest.RFC(end.Add(-24*time.Hour)))
	require.Equal(t, all.Total, quarters.Total)
	require.Equal(t, apitest.RFC(end.Truncate(15*time.Minute)),
		quarters.Steps[len(quarters.Steps)-1].Begin)
	require.Zero(t, stats("to="+apitest.RFC(end.Add(-time.Hour))).Total.Delivered)
	for query, field := range map[string]string{
		"from=" + apitest.RFC(end.Add(-50*time.Hour)): "query.step",
		"from=" + apitest.RFC(end.Add(time.Hour)):     "query.from",
		"to=x": "query.to",
	} {
		p := a.Problem(t, 422, http.MethodGet, "/api/v2/apps/shop/stats?"+query, "")
		require.Equal(t, field, p.Errors[0].Location, query)
	}
}

func TestUpcomingCountsSchedules(t *testing.T) {
	t.Parallel()
	a := setup(t)
	create := func(name, schedule string) {
		t.Helper()
		a.Create(t, 201, strings.Replace(
			apitest.With(schedule, `"status":"active"`), "bill", name, 1))
	}
	type load struct {
		Total   int64
		Peak    struct{ Count int64 }
		Minutes []struct{ Count int64 }
		Timers  int
		Exact   bool
		Sampled int `json:"sampled_timers"`
		LeftOut struct {
			FixedDelays int `json:"fixed_delays"`
			MaxFires    int `json:"max_fires"`
		} `json:"left_out"`
	}
	upcoming := func(hours int) (got load) {
		t.Helper()
		a.Call(t, http.MethodGet, fmt.Sprintf("/api/v2/apps/shop/upcoming?hours=%d", hours), "", nil).
			Into(t, 200, &got)
		return got
	}
	require.Zero(t, upcoming(24).Total)
	create("minutely", `{"kind":"cron","specs":["0 * * * * *"]}`)
	create("once", `{"kind":"delay","delay":"3h"}`)
	create("later", `{"kind":"delay","delay":"72h"}`)
	create("few", `{"kind":"interval","every":"10m","max_fires":3}`)
	got := upcoming(24)
	require.EqualValues(t, 24*60+1+3, got.Total)
	require.True(t, got.Exact)
	require.Equal(t, 4, got.Timers)
	require.GreaterOrEqual(t, got.Peak.Count, int64(2))
	create("after", `{"kind":"fixed_delay","every":"1h"}`)
	got = upcoming(24)
	require.Equal(t, 1, got.LeftOut.FixedDelays)
	require.False(t, got.Exact)

	// Those that are due each second exceed the limit of instants, and are estimated.
	for i := range 4 {
		create(fmt.Sprint("second", i), `{"kind":"cron","specs":["* * * * * *"]}`)
	}
	got = upcoming(48)
	require.Positive(t, got.Sampled)
	require.InEpsilon(t, 4*48*3600+48*60, got.Total, 0.01)
	require.GreaterOrEqual(t, got.Peak.Count, int64(241))
}
