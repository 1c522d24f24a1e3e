package receiver_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/carillon-timer/carillon/e2e/receiver"
	"github.com/carillon-timer/carillon/libs/timer"
)

func TestMain(m *testing.M) {
	// fasthttp's cleaner of idle workers ends up to ten seconds after its server. So do the
	// cleaners of the benchmark's client.
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*workerPool).Start.func2"),
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*HostClient).connsCleaner"),
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*TCPDialer).tcpAddrsClean"))
}

type setup struct {
	*receiver.Receiver
	t  *testing.T
	hc *http.Client
}

func start(t *testing.T) *setup {
	t.Helper()
	r, err := receiver.Start(t.Context(), "127.0.0.1:0")
	require.NoError(t, err)
	s := &setup{Receiver: r, t: t, hc: &http.Client{Transport: &http.Transport{}}}
	t.Cleanup(func() {
		s.hc.CloseIdleConnections()
		require.NoError(t, r.Close())
	})
	return s
}

// call makes a callback as an executor does and returns the status, or 0 if ctx ended first.
func (s *setup) call(
	ctx context.Context,
	path string,
	id timer.FireID,
	attempt int,
	start time.Time,
	body string,
) int {
	s.t.Helper()
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL(path), strings.NewReader(body))
	require.NoError(s.t, err)
	q.Header.Set("Carillon-Fire-Id", id.String())
	q.Header.Set("Carillon-Attempt", fmt.Sprint(attempt))
	q.Header.Set("Carillon-Start", start.UTC().Format("2006-01-02T15:04:05.000Z"))
	resp, err := s.hc.Do(q)
	if err != nil {
		require.Error(s.t, ctx.Err(), "calling: %v", err)
		return 0
	}
	require.NoError(s.t, resp.Body.Close())
	return resp.StatusCode
}

func TestRecordsEveryArrival(t *testing.T) {
	t.Parallel()
	s := start(t)
	due := time.Now().Truncate(time.Millisecond)
	id := timer.FireID{Timer: 7, DueMS: due.UnixMilli()}
	require.Equal(t, 200, s.call(t.Context(), "/a", id, 1, due.Add(3*time.Millisecond), "hello"))

	require.EqualValues(t, 1, s.Count())
	got := s.Of(7)
	require.Len(t, got, 1)
	require.Equal(t, id, got[0].Fire)
	require.EqualValues(t, 1, got[0].Attempt)
	require.EqualValues(t, 200, got[0].Status)
	require.Equal(t, 3*time.Millisecond, got[0].Lateness())
	require.Equal(t, s.BodyHash([]byte("hello")), got[0].BodyHash)
	require.Empty(t, s.Of(8))
	require.Equal(t, got, s.Arrivals())
	require.Empty(t, got.Early(0))
	s.Reset()
	require.Zero(t, s.Count())
}

func TestPlaysStatusesPerFire(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.Script("/flaky", receiver.Script{Statuses: []int{500, 503, 200}})
	now := time.Now()
	a, b := timer.FireID{Timer: 1, DueMS: 1}, timer.FireID{Timer: 1, DueMS: 2}
	for i, want := range []int{500, 503, 200, 200} {
		require.Equal(t, want, s.call(t.Context(), "/flaky", a, i+1, now, ""))
	}
	require.Equal(
		t,
		500,
		s.call(t.Context(), "/flaky", b, 1, now, ""),
		"each fire has its own sequence of answers",
	)
	dup := s.Of(1).Duplicates()
	require.Len(t, dup, 1, "attempts 1 to 3 are no duplicates; a call after success is")
	require.EqualValues(t, 4, dup[0].Attempt)
}

func TestHangsUntilReplacedAndDelays(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.Script("/hang", receiver.Script{Hang: true, Keep: true})
	id := timer.FireID{Timer: 5, DueMS: 1}
	done := make(chan int, 1)
	go func() { done <- s.call(t.Context(), "/hang", id, 1, time.Now(), "") }()
	require.Eventually(t, func() bool { return s.Count() == 1 }, 10*time.Second, time.Millisecond)
	a := s.Of(5)[0]
	require.Zero(t, a.DoneNS, "an arrival is recorded before its answer")
	require.True(t, a.InFlightAt(time.Now(), 0, 0))
	s.Script("/hang", receiver.Script{Delay: 30 * time.Millisecond})
	require.Equal(t, 200, <-done)
	a = s.Of(5)[0]
	require.NotZero(t, a.DoneNS)
	require.False(t, a.InFlightAt(time.Now().Add(time.Second), 0, 0))
	require.True(t, a.InFlightAt(time.Now(), time.Minute, 0))

	from := time.Now()
	require.Equal(t, 200, s.call(t.Context(), "/hang", id, 2, from, ""))
	require.GreaterOrEqual(t, time.Since(from), 30*time.Millisecond)
}

func TestKeepsRequestsAndUnrecognized(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.Script("/kept", receiver.Script{Keep: true, Body: "ok"})
	s.call(
		t.Context(),
		"/kept?x=1",
		timer.FireID{Timer: 9, DueMS: 2, Series: 3},
		1,
		time.Now(),
		"exact \n bytes",
	)
	kept := s.Requests("/kept")
	require.Len(t, kept, 1)
	require.Equal(t, "/kept?x=1", kept[0].URI)
	require.Equal(t, "exact \n bytes", string(kept[0].Body))
	require.Equal(t, "9-2-3", kept[0].Header.Get("Carillon-Fire-Id"))
	require.Empty(t, s.Requests("/other"))

	q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL("/x"), nil)
	require.NoError(t, err)
	q.Header.Set("Carillon-Fire-Id", "9-")
	resp, err := s.hc.Do(q)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, 400, resp.StatusCode)
	require.Len(t, s.Unrecognized(), 1)
	require.EqualValues(t, 1, s.Count())
}

func TestEarlyAndQuantiles(t *testing.T) {
	t.Parallel()
	ms := int64(time.Millisecond)
	at := func(due, start, arrived int64, attempt int32) receiver.Arrival {
		return receiver.Arrival{
			Fire: timer.FireID{
				Timer: 1,
				DueMS: due,
			},
			StartNS:   start * ms,
			ArrivedNS: arrived * ms,
			Attempt:   attempt,
			Status:    200,
		}
	}
	require.Len(t, receiver.Arrivals{at(10, 9, 11, 1)}.Early(0), 1, "started early")
	require.Len(t, receiver.Arrivals{at(10, 10, 9, 1)}.Early(0), 1, "arrived early")
	require.Empty(
		t,
		receiver.Arrivals{at(10, 10, 9, 1)}.Early(2*time.Millisecond),
		"within the clock tolerance",
	)
	require.Len(t, receiver.Arrivals{at(10, 0, 11, 1)}.Early(0), 1, "nothing proves the start")

	var as receiver.Arrivals
	for i := range int64(1000) {
		as = append(as, at(i, i+i+1, i+i+1, 1))
	}
	as = append(as, at(5, 1_000_000, 1_000_000, 2))
	q := as.Lateness()
	require.Equal(t, receiver.Quantiles{
		N:    1000,
		P50:  500 * time.Millisecond,
		P99:  990 * time.Millisecond,
		P999: 999 * time.Millisecond,
		Max:  time.Second,
	}, q, "second attempts do not count for lateness")
	require.Zero(t, receiver.QuantilesOf(nil))
	require.Equal(
		t,
		[]int64{1, 2},
		receiver.Arrivals{at(2, 2, 2, 1), at(1, 1, 1, 1), at(2, 3, 3, 2)}.Dues(),
	)
}

// TestCloseRightAfterStart checks that Close returns although the server may not yet serve.
func TestCloseRightAfterStart(t *testing.T) {
	t.Parallel()
	for range 200 {
		r, err := receiver.Start(t.Context(), "127.0.0.1:0")
		require.NoError(t, err)
		require.NoError(t, r.Close())
	}
}
