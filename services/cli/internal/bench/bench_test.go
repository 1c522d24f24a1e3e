package bench

import (
	"context"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/timer"
)

func TestParsePhase(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Phase{
		"rate:6000:30s":    {Kind: Rate, N: 6000, Length: 30 * time.Second},
		"cron:20:2s":       {Kind: Cron, N: 20, Length: 2 * time.Second},
		"burst:100000":     {Kind: Burst, N: 100000},
		"long:5":           {Kind: Long, N: 5},
		"minute:50000":     {Kind: Minute, N: 50000, Length: minuteRange},
		"minute:50000:500": {Kind: Minute, N: 50000, Beside: 500, Length: minuteRange},
	} {
		p, err := ParsePhase(text)
		require.NoError(t, err, text)
		require.Equal(t, want, p)
		require.NotEmpty(t, p.String())
		require.NotEmpty(t, p.groups(time.Now()))
	}
	for _, bad := range []string{
		"", "rate:1", "rate:1:1ms", "rate:x:1s", "burst:0", "burst:1:1s", "minute:1:2:3",
		"minute:1:x", "minute:1:-1", "wave:1", "long", "cron:1:x",
	} {
		_, err := ParsePhase(bad)
		require.Error(t, err, bad)
	}
}

func TestPhaseOnTheMinute(t *testing.T) {
	t.Parallel()
	p, err := ParsePhase("minute:3:2")
	require.NoError(t, err)
	at := time.Date(2027, 1, 1, 12, 0, 55, 0, time.UTC)
	first := p.firstDue(at)
	require.Equal(t, "12:01:50", first.Format(time.TimeOnly), "the one-shots begin before")
	groups := p.groups(first)
	require.Equal(t, "12:02:00", groups[0].from.Format(time.TimeOnly))
	require.Equal(t, 1, groups[0].fires())
	require.Equal(t, 80, groups[1].n)
}

func TestJudge(t *testing.T) {
	t.Parallel()
	first := time.UnixMilli(1_000_000)
	call := func(id timer.ID, due, late int64) Arrival {
		return Arrival{
			Timer: id, DueMS: due, StartMS: due + late, ArrivedUS: (due + late + 1) * 1000,
		}
	}
	one := expect(&group{name: "rate", n: 4, due: func(i int) time.Time {
		return first.Add(time.Duration(i) * time.Second)
	}}, []timer.ID{40, 30, 20, 10})
	crons := expect(&group{
		name: "cron", n: 2, spec: "* * * * * *",
		from: first, until: first.Add(3 * time.Second), step: time.Second,
	}, []timer.ID{50, 60})
	results := judge([]*expected{one, crons}, []Arrival{
		call(40, 1_000_000, 5),
		call(30, 1_001_000, -1), // early
		call(20, 1_002_000, 7),  // and again
		call(20, 1_002_000, 9),  //
		call(10, 1_009_999, 0),  // of an instant that is not due
		call(99, 1_000_000, 0),  // of another's timer
		call(50, 999_000, 0),    // before what counts
		call(50, 1_000_000, 0), call(50, 1_001_000, 1), call(50, 1_002_000, 2),
		call(50, 1_003_000, 0), // after it
		call(60, 1_000_000, 100),
	})
	r := results[0]
	require.Equal(
		t,
		[]int{4, 3, 1, 1, 1},
		[]int{r.Fires, r.Received, r.Missing, r.Early, r.Repeated},
	)
	require.InDelta(t, 2.008, r.LastArrival, 1e-9)
	r = results[1]
	require.Equal(
		t,
		[]int{6, 4, 2, 0, 0},
		[]int{r.Fires, r.Received, r.Missing, r.Early, r.Repeated},
	)
	require.InDelta(t, 1, r.Lateness.P50, 1e-9)
	require.InDelta(t, 100, r.Lateness.Max, 1e-9)
	require.InDelta(t, 101, r.AtReceiver.Max, 1e-9)
	require.False(t, (&Result{Groups: results}).OK())
}

// lateSource has calls of a cron from long before what counts on, each late.
type lateSource struct {
	Source
	from time.Time
	late time.Duration
}

func (s *lateSource) Arrivals(context.Context) (all []Arrival, err error) {
	for due := s.from; !due.Add(s.late).After(time.Now()); due = due.Add(time.Second) {
		at := due.Add(s.late)
		all = append(all, Arrival{
			Timer: 7, DueMS: due.UnixMilli(), StartMS: at.UnixMilli(), ArrivedUS: at.UnixMicro(),
		})
	}
	return all, nil
}

func (s *lateSource) Count(ctx context.Context) (int64, error) {
	all, err := s.Arrivals(ctx)
	return int64(len(all)), err
}

// TestLateCallsAreAwaited checks that calls before what counts do not end the wait for those that
// are late.
func TestLateCallsAreAwaited(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := Phase{Kind: Cron, N: 1, Length: 10 * time.Second}
		first := p.firstDue(time.Now().Add(time.Minute))
		b := New(Options{
			Receiver: &lateSource{from: time.Now(), late: 5 * time.Second},
			Settle:   time.Minute, Progress: io.Discard,
		})
		all := []*expected{expect(&p.groups(first)[0], []timer.ID{7})}
		r := &Result{}
		require.NoError(t, b.measure(t.Context(), p, first, all, r))
		require.Zero(t, r.Groups[0].Missing)
		require.Equal(t, 10, r.Groups[0].Received)
		require.Less(t, time.Since(first), 20*time.Second, "not all of the time for late ones")
	})
}

func TestHistogram(t *testing.T) {
	t.Parallel()
	ms := []float64{0, 0, 0, 3, 40_000}
	require.Equal(t, Quantiles{N: 5, P50: 0, P90: 40_000, P99: 40_000, P999: 40_000, Max: 40_000},
		quantiles(ms))
	text := drawHistogram(histogram(ms))
	require.Contains(t, text, "60.00 %  3")
	require.Contains(t, text, "≥ 30 s")
	require.Contains(t, text, "< 5 ms")
	require.Empty(t, drawHistogram(histogram(nil)))
}

// TestReceivers compares what a receiver keeps with what it tells another machine.
func TestReceivers(t *testing.T) {
	t.Parallel()
	here, err := StartReceiver(t.Context(), "127.0.0.1:0", "")
	require.NoError(t, err)
	defer func() { require.NoError(t, here.Close()) }()
	address := here.URL()[:len(here.URL())-len("/call")]
	remote := NewRemote(address + "/")
	require.Equal(t, here.URL(), remote.URL())
	for i := range 10_000 {
		a := Arrival{Timer: timer.ID(i), DueMS: 1, StartMS: 2, ArrivedUS: 3}
		l := &here.lists[i%shards]
		l.all = append(l.all, a)
		here.count.Add(1)
	}
	n, err := remote.Count(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 10_000, n)
	all, err := remote.Arrivals(t.Context())
	require.NoError(t, err)
	own, err := here.Arrivals(t.Context())
	require.NoError(t, err)
	require.Equal(t, own, all)
	require.NoError(t, remote.Reset(t.Context()))
	n, err = here.Count(t.Context())
	require.NoError(t, err)
	require.Zero(t, n)
}
