package history_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/process"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/api"
	"github.com/carillon-timer/carillon/services/servicetest/apitest"
)

// serve serves the API as processes do, until stop.
func (a *app) serve(t *testing.T) (address string, stop func()) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() {
		done <- process.Serve(ln, a.Api.Handler(), 10*time.Second, zerolog.Nop())(ctx)
	}()
	stopped := false
	stop = func() {
		if !stopped {
			stopped = true
			cancel()
			require.NoError(t, <-done)
		}
	}
	t.Cleanup(stop)
	return "http://" + ln.Addr().String(), stop
}

// client is an open stream.
type client struct {
	t      *testing.T
	body   *bufio.Reader
	status int
	close  func()
	id     string // of the last event
}

func open(t *testing.T, address, query, lastID string) *client {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	r, err := http.NewRequestWithContext(
		ctx, http.MethodGet, address+"/api/v2/apps/shop/events?"+query, nil)
	require.NoError(t, err)
	if lastID != "" {
		r.Header.Set("Last-Event-ID", lastID)
	}
	transport := &http.Transport{}
	resp, err := transport.RoundTrip(r)
	require.NoError(t, err)
	c := &client{t: t, body: bufio.NewReader(resp.Body), status: resp.StatusCode, id: lastID}
	c.close = func() {
		cancel()
		_ = resp.Body.Close()
		transport.CloseIdleConnections()
	}
	t.Cleanup(c.close)
	if c.status == http.StatusOK {
		require.Equal(t, "text/event-stream", resp.Header.Get("Content-Type"))
	}
	return c
}

// next returns the next event with data; ok is false at the end of the stream.
func (c *client) next() (f listed, ok bool) {
	c.t.Helper()
	for data := ""; ; {
		line, err := c.body.ReadString('\n')
		if err != nil {
			return f, false
		}
		line = strings.TrimSuffix(line, "\n")
		switch name, value, _ := strings.Cut(line, ": "); {
		case name == "id":
			c.id = value
		case name == "data":
			data = value
		case line == "" && data != "":
			require.NoError(c.t, json.Unmarshal([]byte(data), &f))
			return f, true
		}
	}
}

// take returns the ids of n events.
func (c *client) take(n int) (ids []string) {
	c.t.Helper()
	for range n {
		f, ok := c.next()
		require.True(c.t, ok, "the stream ended after %v", ids)
		require.NotEmpty(c.t, f.TimerName)
		ids = append(ids, f.ID)
	}
	return ids
}

func idsOf(outcomes []timer.Outcome) (ids []string) {
	for i := range outcomes {
		ids = append(ids, outcomes[i].FireID.String())
	}
	return ids
}

func TestEventsFollowOutcomes(t *testing.T) {
	t.Parallel()
	a := setup(t)
	address, stop := a.serve(t)
	one, two := a.timer(t, "one", "pay", 20), a.timer(t, "two", "web", 6)
	old := a.finish(t, one[:4], time.Now())
	live := open(t, address, "", "")
	failed := open(t, address, "state=failed", "")
	labelled := open(t, address, "labels=team%3Dweb", "")
	from := open(t, address, "from="+apitest.RFC(time.Now().Add(-time.Hour)), "")
	require.Equal(t, idsOf(old), from.take(4), "in order of position")

	first := a.finish(t, one[4:10], time.Now())
	others := a.finish(t, two, time.Now())
	require.ElementsMatch(t, append(idsOf(first), idsOf(others)...), live.take(12))
	require.ElementsMatch(t, append(idsOf(first), idsOf(others)...), from.take(12))
	require.ElementsMatch(t, idsOf(others), labelled.take(6))
	require.Len(t, failed.take(4), 4)

	// A client that was away gets what finished meanwhile, also what was committed late.
	live.close()
	late := a.finish(t, one[10:12], time.Now().Add(-10*time.Second))
	missed := a.finish(t, one[12:16], time.Now())
	again := open(t, address, "", live.id)
	seen := map[string]bool{}
	for !seen[missed[3].FireID.String()] || !seen[late[0].FireID.String()] {
		f, ok := again.next()
		require.True(t, ok)
		require.False(t, seen[f.ID], "once in a stream")
		seen[f.ID] = true
	}
	for _, id := range append(idsOf(late), idsOf(missed)...) {
		require.True(t, seen[id], id)
	}
	// What is committed late is found by a stream that is open, too.
	late = a.finish(t, one[16:18], time.Now().Add(-12*time.Second))
	require.ElementsMatch(t, idsOf(late), again.take(2))

	// Streams end at once when the server stops.
	began := time.Now()
	stop()
	require.Less(t, time.Since(began), 8*time.Second)
	for _, c := range []*client{again, failed, labelled, from} {
		for ok := true; ok; {
			_, ok = c.next()
		}
	}
}

// TestQuietStreamsGoOn checks that a client may resume from an id that came before any event, and that
// a stream cannot begin later than now.
func TestQuietStreamsGoOn(t *testing.T) {
	t.Parallel()
	a := setup(t)
	address, _ := a.serve(t)
	fires := a.timer(t, "one", "pay", 2)
	quiet := open(t, address, "", "")
	for quiet.id == "" {
		line, err := quiet.body.ReadString('\n')
		require.NoError(t, err)
		if id, ok := strings.CutPrefix(line, "id: "); ok {
			quiet.id = strings.TrimSuffix(id, "\n")
		}
	}
	quiet.close()
	missed := a.finish(t, fires[:1], time.Now())
	again := open(t, address, "", quiet.id)
	require.Equal(t, http.StatusOK, again.status)
	require.Equal(t, idsOf(missed), again.take(1))

	ahead := open(t, address, "from="+apitest.RFC(time.Now().Add(time.Hour)), "")
	require.Equal(t, http.StatusUnprocessableEntity, ahead.status)
}

func TestEventStreamsAreLimited(t *testing.T) {
	t.Parallel()
	a := setup(t, func(o *api.Options) { o.MaxStreams = 4 })
	address, _ := a.serve(t)
	c := open(t, address, "", "")
	require.Equal(t, http.StatusOK, c.status)
	refused := open(t, address, "", "")
	require.Equal(t, http.StatusServiceUnavailable, refused.status, "an app has a quarter")
	c.close()
	require.Eventually(t, func() bool {
		c := open(t, address, "", "")
		defer c.close()
		return c.status == http.StatusOK
	}, 10*time.Second, 50*time.Millisecond)
	p := a.Problem(t, 422, http.MethodGet, "/api/v2/apps/shop/events?from=x", "")
	require.Equal(t, "query.from", p.Errors[0].Location)
	bad := a.Call(t, http.MethodGet, "/api/v2/apps/shop/events", "",
		map[string]string{"Last-Event-ID": "x"})
	require.Equal(t, 422, bad.Status)
	require.Contains(t, bad.Body, "header.Last-Event-ID")
}

// TestEventStreamsOutliveRequests checks that the timeout of requests does not end a stream.
func TestEventStreamsOutliveRequests(t *testing.T) {
	t.Parallel()
	a := setup(t, func(o *api.Options) { o.Timeout = 2 * time.Second })
	address, _ := a.serve(t)
	fires := a.timer(t, "one", "pay", 2)
	c := open(t, address, "", "")
	for i := range fires {
		<-time.After(1200 * time.Millisecond)
		outcome := a.finish(t, fires[i:i+1], time.Now())
		require.Equal(t, idsOf(outcome), c.take(1))
	}
}

// scanned is a store with many outcomes that nobody selects. Each page takes 4 s.
type scanned struct {
	api.Store

	queries []store.OutcomeQuery
}

func (s *scanned) Outcomes(
	ctx context.Context, q store.OutcomeQuery,
) (page store.OutcomePage, err error) {
	if q.FromMS > 800_000_000_000 { // of the feed, which reads what is new
		return s.Store.Outcomes(ctx, q)
	}
	s.queries = append(s.queries, q)
	time.Sleep(4 * time.Second)
	at := max(q.FromMS, q.After.FinishedMS) + 1000
	page.Next = store.OutcomePosition{FinishedMS: at, FireID: timer.FireID{Timer: 1, DueMS: 1}}
	return page, ctx.Err()
}

// TestEventsOfLongHistories checks that a stream that looks through a long history shows its
// position, asks for what is selected alone, and ends after ten minutes.
func TestEventsOfLongHistories(t *testing.T) {
	t.Parallel()
	for _, follow := range []string{"true", "false"} {
		synctest.Test(t, func(t *testing.T) {
			s := &scanned{}
			a := setup(t, func(o *api.Options) { s.Store, o.Store = o.Store, s })
			r := httptest.NewRequestWithContext(
				t.Context(),
				http.MethodGet,
				"/api/v2/apps/shop/events?state=failed&from=1990-01-01T00:00:00Z&follow="+follow,
				nil,
			)
			w := httptest.NewRecorder()
			began := time.Now()
			serve := func() { a.Api.Handler().ServeHTTP(w, r) }
			if follow == "true" {
				serve()
			} else {
				require.PanicsWithValue(
					t,
					http.ErrAbortHandler,
					serve,
					"an end would say: that is all",
				)
			}
			body := w.Body.String()
			require.InDelta(t, 600, time.Since(began).Seconds(), 5, body[:min(len(body), 500)])
			require.Equal(
				t,
				37,
				strings.Count(body, ": heartbeat\nid: "),
				body[:min(len(body), 500)],
			)
			require.Equal(t, []timer.OutcomeKind{timer.Failed}, s.queries[0].Kinds)
			ids := strings.Split(body, "id: ")
			require.Greater(t, ids[len(ids)-1], ids[1], "it proceeds")
		})
	}
}

// TestEventStreamsEndWithTheirKey checks that a stream ends soon after its key was revoked, whether it
// waits for what comes or looks through a long history.
func TestEventStreamsEndWithTheirKey(t *testing.T) {
	t.Parallel()
	for _, from := range []string{"", "&from=1990-01-01T00:00:00Z"} {
		synctest.Test(t, func(t *testing.T) {
			s := &scanned{}
			f, admin := apitest.Guarded(t, func(o *api.Options) { s.Store, o.Store = o.Store, s })
			key := f.MakeKey(t, admin, "shop", "read")
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet,
				"/api/v2/apps/shop/events?state=failed"+from, nil)
			r.Header.Set("Authorization", "Bearer "+key.Key)
			began := time.Now()
			ended := make(chan time.Duration, 1)
			w := httptest.NewRecorder()
			go func() {
				f.Api.Handler().ServeHTTP(w, r)
				ended <- time.Since(began)
			}()
			time.Sleep(65 * time.Second)
			require.Equal(t, http.StatusNoContent, f.Call(t, http.MethodDelete,
				"/api/v2/apps/shop/keys/"+key.ID, "", apitest.Bearer(admin)).Status)
			lasted := <-ended
			require.Equal(t, http.StatusOK, w.Code)
			require.Greater(t, lasted, 65*time.Second, "it goes on while the key is valid")
			require.Less(t, lasted, 65*time.Second+20*time.Second)
		})
	}
}
