package timers_test

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/servicetest/apitest"
)

// listed is a page of a list of timers.
type listed struct {
	Items []struct {
		ID, Name    string
		LastFired   string `json:"last_fired"`
		LastOutcome string `json:"last_outcome"`
		NextDue     string `json:"next_due"`
	}
	NextCursor     string `json:"next_cursor"`
	Total          *int
	TotalIsMinimum bool `json:"total_is_minimum"`
}

// lister lists timers of the app shop.
type lister struct{ *apitest.Fixture }

func (l lister) page(t *testing.T, query string) (p listed) {
	t.Helper()
	l.Call(t, http.MethodGet, "/api/v2/timers?app=shop"+query, "", nil).Into(t, 200, &p)
	return p
}

// names reads all pages.
func (l lister) names(t *testing.T, query string) (names []string) {
	t.Helper()
	for cursor := ""; ; {
		p := l.page(t, query+"&cursor="+cursor)
		for _, tm := range p.Items {
			names = append(names, tm.Name)
		}
		if cursor = p.NextCursor; cursor == "" {
			return names
		}
	}
}

// setUpList creates six timers: those with even numbers are active, and due in so many hours.
func setUpList(t *testing.T) lister {
	t.Helper()
	f := apitest.Setup(t)
	for i, labels := range []string{
		`{"team":"pay","env":"prod"}`, `{"team":"pay","env":"dev"}`, `{"team":"web","tier":"a"}`,
		`{"team":"web","env":"prod","note":"a b,c"}`, `{}`, `{"env":"prod"}`,
	} {
		status := []string{"active", "inactive"}[i%2]
		at := time.Now().Add(time.Duration(10-i) * time.Hour).UTC().Format(time.RFC3339)
		f.Create(t, 201, fmt.Sprintf(`{"app":"shop","name":"job-%d","status":%q,"labels":%s,
			"schedule":{"kind":"at","at":%q},
			"target":{"kind":"http","url":"http://Host%d.example:8080/x","method":"POST"}}`,
			i, status, labels, at, i%3))
	}
	f.Create(t, 201, strings.Replace(apitest.V2Body, `"shop"`, `"desk"`, 1))
	return lister{f}
}

func TestV2ListBoundsPagesInBytes(t *testing.T) {
	t.Parallel()
	const n, size = 20, 250_000
	f := lister{apitest.Setup(t)}
	for i := range n {
		f.Create(t, 201, fmt.Sprintf(`{"app":"shop","name":"job-%d",
			"schedule":{"kind":"at","at":"2100-01-01T00:00:00Z"},
			"target":{"kind":"http","url":"http://host.example/","body":%q}}`,
			i, strings.Repeat("x", size)))
	}
	answer := f.Call(t, http.MethodGet, "/api/v2/timers?app=shop", "", nil)
	require.Less(t, len(answer.Body), 5<<20)
	require.Greater(t, len(answer.Body), 3<<20)
	require.Len(t, f.names(t, ""), n)
}

func TestV2ListSelects(t *testing.T) {
	t.Parallel()
	f := setUpList(t)
	hours := func(n int) string {
		return url.QueryEscape(
			time.Now().Add(time.Duration(n)*time.Hour + time.Minute).Format(time.RFC3339),
		)
	}
	for query, want := range map[string]string{
		"":                 "0 1 2 3 4 5",
		"&labels=team=pay": "0 1",
		"&labels=" + url.QueryEscape("team=pay,env!=dev"):     "0",
		"&labels=" + url.QueryEscape("team in (pay,web),env"): "0 1 3",
		"&labels=" + url.QueryEscape("!team"):                 "4 5",
		"&labels=" + url.QueryEscape("tier notin (a)"):        "0 1 3 4 5",
		"&labels=" + url.QueryEscape(`note="a b,c"`):          "3",
		"&labels=team=pay&status=inactive":                    "1",
		"&name_prefix=job-":                                   "0 1 2 3 4 5",
		"&name_prefix=ob-":                                    "",
		"&name_contains=b-4":                                  "4",
		"&name=job-3":                                         "3",
		"&name=job-3&labels=team=pay":                         "",
		"&name=job-3&labels=team=web&last_outcome=none":       "3",
		"&name=job-3&due_before=" + hours(11):                 "",
		"&target_host=host1.example":                          "1 4",
		"&target_host=HOST1.example":                          "1 4",
		"&target_host=host1":                                  "",
		"&due_before=" + hours(8):                             "2 4",
		"&due_after=" + hours(8):                              "0",
		"&due_after=" + hours(7) + "&due_before=" + hours(9):  "2",
		"&last_outcome=none&env=":                             "",
		"&last_outcome=failed":                                "",
		"&sort=name&order=desc":                               "5 4 3 2 1 0",
		"&order=desc":                                         "5 4 3 2 1 0",
		"&sort=next_due":                                      "4 2 0 1 3 5",
		"&sort=next_due&order=desc":                           "0 2 4 5 3 1",
		"&sort=last_fired":                                    "0 1 2 3 4 5",
	} {
		if strings.Contains(query, "&env=") {
			continue
		}
		var names []string
		for n := range strings.FieldsSeq(want) {
			names = append(names, "job-"+n)
		}
		for _, limit := range []string{"&limit=1", "&limit=2", ""} {
			require.Equal(t, names, f.names(t, query+limit), query+limit)
		}
		p := f.page(t, query+"&count=true&limit=1")
		require.NotNil(t, p.Total)
		require.Equal(t, len(names), *p.Total, query)
		require.False(t, p.TotalIsMinimum)
		require.Nil(t, f.page(t, query).Total)
	}
}

func TestV2ListShowsLatestOutcomes(t *testing.T) {
	t.Parallel()
	f := setUpList(t)
	due := time.Now().Add(-time.Minute).UTC().Truncate(time.Millisecond)
	f.recordRun(t, "job-1", due, timer.Failed)
	f.recordRun(t, "job-3", due.Add(time.Second), timer.Delivered)
	require.Equal(t, []string{"job-1"}, f.names(t, "&last_outcome=failed"))
	require.Equal(t, []string{"job-3"}, f.names(t, "&name=job-3&last_outcome=delivered"))
	require.Equal(t, []string{"job-0", "job-2", "job-4", "job-5"}, f.names(t, "&last_outcome=none"))
	require.Equal(t, []string{"job-3", "job-1"}, f.names(t, "&sort=last_fired&order=desc")[:2])
	p := f.page(t, "&sort=last_fired")
	require.Equal(t, "job-1", p.Items[0].Name)
	require.Equal(t, "failed", p.Items[0].LastOutcome)
	require.Equal(t, due.Format("2006-01-02T15:04:05.000Z"), p.Items[0].LastFired)
	require.Empty(t, p.Items[5].LastOutcome)
	require.Empty(t, p.Items[5].LastFired)
}

// recordRun records a fire of a timer.
func (l lister) recordRun(t *testing.T, name string, due time.Time, kind timer.OutcomeKind) {
	t.Helper()
	ctx := t.Context()
	tm, err := l.Store.TimerByName(ctx, "shop", name)
	require.NoError(t, err)
	id := timer.FireID{Timer: tm.ID, DueMS: due.UnixMilli(), Series: 1}
	added, err := l.Store.AddFires(ctx, "shop", tm.ID, []timer.Fire{
		{FireID: id, RunAtMS: id.DueMS, Cause: timer.CauseRunNow},
	})
	require.NoError(t, err)
	session := tm.ID
	require.NoError(
		t,
		l.Store.OpenSession(
			ctx,
			store.Session{ID: session, Kind: store.ExecutorSession, Name: "test"},
		),
	)
	won, err := l.Store.Claim(ctx, session, added)
	require.NoError(t, err)
	require.Len(t, won, 1)
	_, _, err = l.Store.Record(ctx, session, []timer.Outcome{{
		Fire: won[0], Kind: kind, FinishedMS: due.UnixMilli() + 5, UntilMS: id.DueMS, Count: 1,
	}}, nil)
	require.NoError(t, err)
}

func TestV2ListRefuses(t *testing.T) {
	t.Parallel()
	f := setUpList(t)
	for query, want := range map[string]string{
		"&labels=" + url.QueryEscape("team=pay,"):                         `query.labels: expected a selector such as "team=pay,env!=dev": expected a label after the comma, found the end after "team=pay,"`,
		"&labels=" + url.QueryEscape("a>3"):                               `quote it if it is part of a value`,
		"&due_after=tomorrow":                                             `query.due_after: expected an instant such as "2030-01-31T09:00:00Z", found "tomorrow"`,
		"&due_after=2030-01-02T00:00:00Z&due_before=2030-01-01T00:00:00Z": `query.due_before: expected an instant later than due_after ("2030-01-02T00:00:00Z"), found "2030-01-01T00:00:00Z"`,
		"&sort=age":          "query.sort",
		"&order=up":          "query.order",
		"&last_outcome=good": "query.last_outcome",
		"&status=deleted":    "query.status",
		"&status=":           "query.status: expected one of active,inactive,paused, found none",
		"&cursor=dGFiYw":     "query.cursor: expected the next_cursor of a page of this list",
	} {
		p := f.Problem(t, 422, http.MethodGet, "/api/v2/timers?app=shop"+query, "")
		require.Len(t, p.Errors, 1)
		require.Contains(t, p.Errors[0].Location+": "+p.Errors[0].Message, want, query)
	}
}

// TestV2ListRefusesTextThatIsNotUTF8 gives half a character as a prefix: SQLite selects no name by it, and
// MariaDB those with that byte, but both would count all names from that byte on.
func TestV2ListRefusesTextThatIsNotUTF8(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	f.Active(t, "中", `{"kind":"cron","specs":["@daily"]}`)
	for _, name := range []string{"name_prefix", "name_contains"} {
		a := f.Call(
			t, http.MethodGet, "/api/v2/timers?app=shop&count=true&"+name+"=%C3", "", nil,
		)
		require.Equal(t, http.StatusUnprocessableEntity, a.Status, a.Body)
		require.Contains(t, a.Body, `query.`+name+`: expected text in UTF-8, found \"\\xc3\"`)
	}
}

// TestV2ListCursorsBelongToTheirQuery passes cursors of one query to another.
func TestV2ListCursorsBelongToTheirQuery(t *testing.T) {
	t.Parallel()
	f := setUpList(t)
	queries := []string{
		"", "&labels=env=prod", "&labels=env%21=dev", "&sort=name", "&sort=next_due", "&order=desc",
		"&name_prefix=job", "&sort=name&order=desc", "&sort=name&name_prefix=job",
	}
	var cursors []string
	for _, query := range queries {
		p := f.page(t, query+"&limit=1")
		require.NotEmpty(t, p.NextCursor, query)
		require.False(t, slices.Contains(cursors, p.NextCursor), query)
		cursors = append(cursors, p.NextCursor)
	}
	for i, query := range queries {
		for j, cursor := range cursors {
			if i == j {
				continue
			}
			p := f.Problem(
				t,
				422,
				http.MethodGet,
				"/api/v2/timers?app=shop"+query+"&cursor="+cursor,
				"",
			)
			require.Equal(t, "query.cursor", p.Errors[0].Location)
		}
	}
	var other listed
	f.Call(t, http.MethodGet, "/api/v2/timers?app=desk&sort=name&cursor="+cursors[3], "", nil)
	a := f.Call(t, http.MethodGet, "/api/v2/timers?app=desk&sort=name&cursor="+cursors[3], "", nil)
	require.Equal(t, 422, a.Status)
	f.Call(t, http.MethodGet, "/api/v2/timers?app=desk&labels=%21x", "", nil).Into(t, 200, &other)
	require.Len(t, other.Items, 1)
}
