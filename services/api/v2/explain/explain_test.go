package explain_test

import (
	"fmt"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/explain"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/servicetest/apitest"
)

type explanation struct {
	Name, Status string
	Items        []struct {
		At, Local, Code, Text, Spec, Before, After string

		MovedTo string `json:"moved_to"`

		Due   bool
		Slice *struct{ Minute string }
		Fire  *struct{ Status string }
	}
	NextCursor string `json:"next_cursor"`
}

func ask(t *testing.T, f *apitest.Fixture, id, query string) explanation {
	t.Helper()
	var out explanation
	f.Call(t, http.MethodGet, apitest.TimerPath(id, "/explain")+query, "", nil).
		Into(t, http.StatusOK, &out)
	return out
}

func at(t time.Time) string { return "&at=" + url.QueryEscape(apitest.RFC(t)) }

func TestExplainsPastAndComingInstants(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	got, id := f.Active(t, "hourly", `{"kind":"cron","specs":["0 * * * *"]}`)
	hour := time.Now().UTC().Truncate(time.Hour).Add(time.Hour)

	one := ask(t, f, got.ID, at(hour))
	require.Equal(t, "hourly", one.Name)
	require.Len(t, one.Items, 1)
	require.True(t, one.Items[0].Due)
	require.Equal(t, string(explain.Planned), one.Items[0].Code)
	require.Equal(t, "0 * * * *", one.Items[0].Spec)
	require.Equal(t, apitest.RFC(hour), one.Items[0].Slice.Minute)
	require.Equal(t, "open", one.Items[0].Fire.Status)

	require.Equal(
		t,
		string(explain.NotExpanded),
		ask(t, f, got.ID, at(hour.Add(48*time.Hour))).Items[0].Code,
	)

	none := ask(t, f, got.ID, at(hour.Add(time.Second))).Items[0]
	require.False(t, none.Due)
	require.Equal(t, string(explain.NotInSchedule), none.Code)
	require.Equal(t, apitest.RFC(hour), none.Before)
	require.Equal(t, apitest.RFC(hour.Add(time.Hour)), none.After)

	session := timer.ID(7)
	require.NoError(
		t,
		f.Store.OpenSession(
			t.Context(),
			store.Session{ID: session, Kind: store.ExecutorSession, Name: "test"},
		),
	)
	fires, err := f.Store.OpenAmong(
		t.Context(),
		[]timer.FireID{{Timer: id, DueMS: hour.UnixMilli()}},
	)
	require.NoError(t, err)
	f.Finish(t, session, fires, timer.Delivered)
	require.Equal(t, string(explain.Delivered), ask(t, f, got.ID, at(hour)).Items[0].Code)

	f.Do(
		t,
		http.StatusOK,
		http.MethodPost,
		apitest.TimerPath(got.ID, "/pause"),
		`{"reason":"release"}`,
	)
	paused := ask(t, f, got.ID, at(hour.Add(48*time.Hour)))
	require.Equal(t, "paused", paused.Status)
	require.Equal(t, string(explain.Paused), paused.Items[0].Code)
	require.Contains(t, paused.Items[0].Text, "(release)")

	require.Equal(t, http.StatusNoContent,
		f.Call(t, http.MethodDelete, apitest.TimerPath(got.ID, ""), "", nil).Status)
	gone := ask(t, f, got.ID, at(hour.Add(48*time.Hour)))
	require.Equal(t, "deleted", gone.Status)
	require.Equal(t, string(explain.Deleted), gone.Items[0].Code)
}

func TestExplainsARangeInPages(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	got, _ := f.Active(t, "hourly", `{"kind":"cron","specs":["0 * * * *"]}`)
	from := time.Now().UTC().Truncate(time.Hour).Add(time.Hour)
	query := fmt.Sprintf("&from=%s&limit=10", url.QueryEscape(apitest.RFC(from)))
	var all []string
	cursor := ""
	for range 3 {
		page := ask(t, f, got.ID, query+cursor)
		for _, item := range page.Items {
			all = append(all, item.At)
		}
		cursor = "&cursor=" + page.NextCursor
	}
	require.Len(t, all, 24) // a day by default
	require.Equal(t, "&cursor=", cursor)
	require.Equal(t, apitest.RFC(from.Add(23*time.Hour)), all[23])
}

func TestExplainRefusesWhatItCannotAnswer(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	got, _ := f.Active(t, "hourly", `{"kind":"cron","specs":["0 * * * *"]}`)
	for query, field := range map[string]string{
		"&at=tomorrow":             "query.at",
		"&to=2030-01-01T00:00:00Z": "query.from",
		"&from=2030-01-01T00:00:00Z&at=2030-01-01T00:00:00Z": "query.at",
		"&from=2030-01-02T00:00:00Z&to=2030-01-01T00:00:00Z": "query.to",
		"&from=2030-01-01T00:00:00Z&to=2032-01-01T00:00:00Z": "query.to",
		"&at=2300-01-01T00:00:00Z":                           "query.at",
		"&from=2030-01-01T00:00:00Z&cursor=eDE":              "query.cursor",
		"&cursor=eDE":                                        "query.cursor",
		"&at=2030-01-01T00:00:00Z&cursor=eDE":                "query.cursor",
	} {
		problem := f.Problem(
			t, http.StatusUnprocessableEntity, http.MethodGet,
			apitest.TimerPath(got.ID, "/explain")+query, "",
		)
		require.NotEmpty(t, problem.Errors, query)
		require.Equal(t, field, problem.Errors[0].Location, query)
	}
	f.Problem(t, http.StatusNotFound, http.MethodGet, apitest.TimerPath("123456", "/explain"), "")
}

// TestExplainsTheLifeAndWhatHoldsBack checks the hops of a fire of one instant, and what holds
// coming fires back.
func TestExplainsTheLifeAndWhatHoldsBack(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	got, id := f.Active(t, "hourly", `{"kind":"cron","specs":["0 * * * *"]}`)
	hour := time.Now().UTC().Truncate(time.Hour).Add(time.Hour)
	type answer struct {
		Items []struct {
			ExpandAt string `json:"expand_at"`
			Timeline []struct{ At, Code, Text string }
		}
		Holds []struct{ Code, Text string }
	}
	about := func(at time.Time, more string) (a answer) {
		f.Call(t, http.MethodGet, apitest.TimerPath(got.ID, "/explain")+"&at="+
			url.QueryEscape(apitest.RFC(at))+more, "", nil).Into(t, http.StatusOK, &a)
		return a
	}
	codes := func(a answer) (out []string) {
		for _, h := range a.Holds {
			out = append(out, h.Code)
		}
		return out
	}
	coming := about(hour, "")
	require.Len(t, coming.Items, 1)
	require.Equal(t, "created", coming.Items[0].Timeline[0].Code)
	require.Equal(t, "waiting", coming.Items[0].Timeline[2].Code)
	require.Equal(t, []string{"no_executor"}, codes(coming))
	require.NotEmpty(t, about(hour.Add(48*time.Hour), "").Items[0].ExpandAt)
	require.Empty(t, about(hour.Add(-2*time.Hour), "").Holds, "of the past")

	session := timer.ID(7)
	require.NoError(
		t,
		f.Store.OpenSession(
			t.Context(),
			store.Session{ID: session, Kind: store.ExecutorSession, Name: "one"},
		),
	)
	_, err := f.Store.PutSettings(t.Context(), "shop", store.AppSettings{Rate: 3}, 0)
	require.NoError(t, err)
	_, err = f.Store.SetFrozen(t.Context(), "shop", true, "audit")
	require.NoError(t, err)
	require.Equal(t, []string{"app_frozen", "app_limited"}, codes(about(hour, "")))
	f.Do(t, http.StatusOK, http.MethodPost, apitest.TimerPath(got.ID, "/pause"), `{}`)
	require.Equal(t, []string{"timer_paused", "app_frozen", "app_limited"}, codes(about(hour, "")))
	f.Do(t, http.StatusOK, http.MethodPost, apitest.TimerPath(got.ID, "/resume"), "")

	fires, err := f.Store.OpenAmong(
		t.Context(), []timer.FireID{{Timer: id, DueMS: hour.UnixMilli()}},
	)
	require.NoError(t, err)
	f.Finish(t, session, fires, timer.Delivered)
	var told []string
	for _, h := range about(hour, "").Items[0].Timeline {
		told = append(told, h.Code)
	}
	require.Contains(t, told, "claimed")
	require.Contains(t, told, "recorded")
}

// TestExplainsTheOpenFiresOfNow checks that a question about the present tells of fires that came due
// and are open, and that no question tells of one twice.
func TestExplainsTheOpenFiresOfNow(t *testing.T) {
	t.Parallel()
	e := apitest.NewExecutor(t)
	got := e.Create(t, http.StatusCreated, apitest.V2Body) // never active: only requests have fires
	type answer struct {
		Items []struct{ Code string }
		Holds []struct {
			Code, Text string
			Answer     *struct {
				At, Code, Text string
				Fire           struct {
					ID, Due, Cause string
					WaitsFor       string `json:"waits_for"`
				}
			}
		}
	}
	about := func(query string) (told []string, a answer) {
		e.Call(t, http.MethodGet, apitest.TimerPath(got.ID, "/explain")+query, "", nil).
			Into(t, http.StatusOK, &a)
		for _, h := range a.Holds {
			if h.Answer != nil {
				require.Equal(t, string(explain.HoldOpenFire), h.Code)
				require.Equal(t, "run_now", h.Answer.Fire.Cause)
				require.Equal(t, h.Answer.At, h.Answer.Fire.Due)
				require.Contains(t, h.Text, "The fire "+h.Answer.Fire.ID+", due at ")
				require.Contains(t, h.Text, "is open ("+h.Answer.Code+"): "+h.Answer.Text)
				told = append(told, h.Answer.Code+" "+h.Answer.Fire.WaitsFor)
			}
		}
		return told, a
	}
	told, _ := about("")
	require.Empty(t, told, "no fire is open")

	for range 3 {
		require.Equal(t, http.StatusAccepted,
			e.Call(t, http.MethodPost, apitest.TimerPath(got.ID, "/run"), "", nil).Status)
	}
	won := e.Claimed(t, e.Dispatched.All())
	require.Len(t, won, 3)
	e.Accept(t, won[1])
	won[0].State, won[0].Attempt = timer.FireRetrying, 1
	won[0].RunAtMS = time.Now().Add(time.Hour).UnixMilli()
	_, err := e.Store.Release(t.Context(), e.Session, won[:1], nil)
	require.NoError(t, err)
	// A fire due at the very millisecond of the question is its item.
	last := max(won[0].DueMS, won[1].DueMS, won[2].DueMS)
	time.Sleep(time.Until(time.UnixMilli(last + 1)))
	told, _ = about("")
	require.ElementsMatch(t, []string{
		"waits_for_retry retry", "waits_for_completion completion", "in_progress executor",
	}, told)

	later := apitest.RFC(time.Now().Add(time.Hour))
	told, _ = about("&at=" + url.QueryEscape(later))
	require.Len(t, told, 3, "the future, too")
	own := time.UnixMilli(won[0].DueMS)
	told, a := about(at(own))
	require.Len(t, told, 3-len(a.Items), "what is an item is no hold")
}
