package fires_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/api"
	"github.com/carillon-timer/carillon/services/servicetest/apitest"
)

type deadLetters struct {
	Items []struct {
		ID, Status, Reason, Failure string
		LastError                   string `json:"last_error"`
		RedrivenAs                  string `json:"redriven_as"`
	}
	NextCursor string `json:"next_cursor"`
}

const deadLettersPath = "/api/v2/apps/shop/dead-letters"

func listDeadLetters(t *testing.T, e *apitest.Executor, query url.Values) (out deadLetters) {
	t.Helper()
	e.Call(t, http.MethodGet, deadLettersPath+"?"+query.Encode(), "", nil).Into(t, 200, &out)
	return out
}

func TestV2DeadLetters(t *testing.T) {
	t.Parallel()
	e := apitest.NewExecutor(t)
	require.Empty(t, listDeadLetters(t, e, nil).Items)
	bill, other := e.Held(t, "shop", "bill", 4), e.Held(t, "shop", "other", 3)
	e.Fail(t, bill[:3], timer.FailureTimeout)
	e.Fail(t, other, timer.FailureConnect)
	// The bus has no part in it.
	e.Broker.Pause()
	defer e.Broker.Resume()

	all := listDeadLetters(t, e, nil)
	require.Len(t, all.Items, 6)
	require.Empty(t, all.NextCursor)
	for _, l := range all.Items {
		require.Equal(t, "failed", l.Status)
		require.Equal(t, "exhausted", l.Reason)
		require.Equal(t, "no answer: "+l.Failure, l.LastError)
	}
	id := bill[0].Timer.String()
	for text, want := range map[string]int{
		"timer=" + id:                 3,
		"timer=bill":                  3,
		"failure=connect":             3,
		"failure=connect&timer=" + id: 0,
		"from=2200-01-01T00:00:00Z":   0,
		"to=2020-01-01T00:00:00Z":     0,
		"to=1970-01-01T00:00:00Z":     0,
		"from=1969-01-01T00:00:00Z&to=1970-01-01T00:00:00Z": 0,
		"to=2200-01-01T00:00:00Z":                           6,
		"again=true&failure=timeout":                        3,
		"limit=6":                                           6,
		"limit=1000&from=" + "2020-01-01T00:00:00Z":         6,
	} {
		query, err := url.ParseQuery(text)
		require.NoError(t, err)
		got := listDeadLetters(t, e, query)
		require.Len(t, got.Items, want, text)
		require.Empty(t, got.NextCursor, text)
	}

	require.Equal(t, 1, e.Redrive(t, fmt.Sprintf(`{"fires":[%q]}`, bill[0].FireID)).Count)
	require.Len(t, listDeadLetters(t, e, nil).Items, 5)
	again := listDeadLetters(t, e, url.Values{"again": {"true"}})
	require.Len(t, again.Items, 6)
	redriven := 0
	for _, l := range again.Items {
		if l.RedrivenAs != "" {
			require.Equal(t, bill[0].FireID.String(), l.ID)
			redriven++
		}
	}
	require.Equal(t, 1, redriven)

	for query, want := range map[string]string{
		"failure=tired":   "query.failure",
		"limit=0":         "query.limit",
		"cursor=nonsense": "query.cursor",
		"from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z": "query.to",
	} {
		p := e.Problem(t, 422, http.MethodGet, deadLettersPath+"?"+query, "")
		require.Equal(t, want, p.Errors[0].Location, query)
	}
	e.Problem(t, 404, http.MethodGet, deadLettersPath+"?timer=4711", "")
	e.Problem(t, 404, http.MethodGet, deadLettersPath+"?timer=x", "")
	e.Problem(t, 404, http.MethodGet, "/api/v2/apps/desk/dead-letters?timer="+id, "")
}

// TestV2DeadLettersInPages reads more than one page of the store, in pages of several sizes.
func TestV2DeadLettersInPages(t *testing.T) {
	t.Parallel()
	e := apitest.NewExecutor(t)
	for name, n := range map[string]int{"a": 300, "b": 300, "c": 200} {
		e.Fail(t, e.Held(t, "shop", name, n), timer.FailureTimeout)
	}
	for _, limit := range []int{199, 500, 800, 1000} {
		query := url.Values{"limit": {fmt.Sprint(limit)}}
		seen := map[string]bool{}
		for more := true; more; {
			page := listDeadLetters(t, e, query)
			for _, l := range page.Items {
				require.False(t, seen[l.ID], "twice")
				seen[l.ID] = true
			}
			more = page.NextCursor != ""
			require.LessOrEqual(t, len(page.Items), limit)
			require.True(t, !more || len(page.Items) == limit, "only the last page is not full")
			query.Set("cursor", page.NextCursor)
		}
		require.Len(t, seen, 800)
	}
}

// TestV2DeadLettersAreOfOneApp checks that an app does not see another's dead letters.
func TestV2DeadLettersAreOfOneApp(t *testing.T) {
	t.Parallel()
	e := apitest.NewExecutor(t)
	e.Fail(t, e.Held(t, "desk", "bill", 1), timer.FailureTimeout)
	require.Empty(t, listDeadLetters(t, e, url.Values{
		"from": {time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)},
	}).Items)
}

// narrow is a store whose pages examine two failed fires.
type narrow struct{ api.Store }

func (n narrow) DeadLetters(
	ctx context.Context,
	q store.DeadLetterQuery,
) (store.DeadLetterPage, error) {
	q.ScanLimit = 2
	return n.Store.DeadLetters(ctx, q)
}

// TestV2DeadLettersExamineFew checks that a list of few among many ends early, and goes on by its
// cursor, and that a redrive finds them at once.
func TestV2DeadLettersExamineFew(t *testing.T) {
	t.Parallel()
	e := apitest.NewExecutor(t, func(o *api.Options) { o.Store = narrow{o.Store} })
	e.Fail(t, e.Held(t, "shop", "many", 30), timer.FailureTimeout)
	e.Fail(t, e.Held(t, "shop", "few", 1), timer.FailureConnect)
	total, cursor := 0, ""
	for page := 0; ; page++ {
		require.Less(t, page, 3)
		query := url.Values{"failure": {"connect"}}
		if cursor != "" {
			query.Set("cursor", cursor)
		}
		out := listDeadLetters(t, e, query)
		if page == 0 {
			require.Empty(t, out.Items)
			require.NotEmpty(t, out.NextCursor)
		}
		total += len(out.Items)
		if cursor = out.NextCursor; cursor == "" {
			break
		}
	}
	require.Equal(t, 1, total)
	require.Equal(t, 1, e.Redrive(t, `{"failure":"connect","dry_run":true}`).Count)
}
