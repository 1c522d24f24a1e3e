package limit_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/limit"
)

func newBreakers(t *testing.T, o limit.BreakerOptions) *limit.Breakers {
	t.Helper()
	o.Registerer = prometheus.NewRegistry()
	b, err := limit.NewBreakers(o)
	require.NoError(t, err)
	return b
}

// allowed requires that the endpoint may be called.
func allowed(t *testing.T, b *limit.Breakers, endpoint string) limit.Probe {
	t.Helper()
	d, probe := b.Allow(endpoint)
	require.True(t, d.OK)
	return probe
}

func refused(t *testing.T, b *limit.Breakers, endpoint string) time.Time {
	t.Helper()
	d, _ := b.Allow(endpoint)
	require.False(t, d.OK)
	return d.At
}

func TestBreakerOpensProbesAndCloses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBreakers(
			t,
			limit.BreakerOptions{
				Failures: 3,
				Probes:   1,
				Open:     time.Second,
				MaxOpen:  3 * time.Second,
			},
		)
		fail := func(n int) {
			for range n {
				b.Report("a", allowed(t, b, "a"), false)
			}
		}
		fail(2)
		b.Report("a", 0, true)
		fail(3)
		wait := time.Until(refused(t, b, "a"))
		require.GreaterOrEqual(t, wait, time.Second)
		require.LessOrEqual(t, wait, 1500*time.Millisecond)
		allowed(t, b, "b")
		b.Report("a", 0, true)
		refused(t, b, "a") // a call from before it opened says nothing about now

		time.Sleep(time.Second)
		probe := allowed(t, b, "a")
		require.NotZero(t, probe)
		require.True(t, refused(t, b, "a").After(time.Now()), "one only")
		b.Report("a", probe, false)
		for _, open := range []time.Duration{2 * time.Second, 3 * time.Second, 3 * time.Second} {
			time.Sleep(open - time.Millisecond)
			refused(t, b, "a")
			time.Sleep(time.Millisecond)
			b.Report("a", allowed(t, b, "a"), false)
		}
		time.Sleep(3 * time.Second)
		b.Cancel("a", allowed(t, b, "a"))
		b.Report("a", allowed(t, b, "a"), true) // a cancelled probe does not count
		fail(2)
		require.Zero(t, allowed(t, b, "a"), "closed, and the count starts at 0")
	})
}

// TestBreakerOfAClockSetBack sets the clock back while a breaker is open. It does not stay open for
// longer.
func TestBreakerOfAClockSetBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var behind time.Duration
		now := func() time.Time { return time.Now().Add(-behind) }
		b := newBreakers(t, limit.BreakerOptions{Failures: 1, Open: time.Second, Now: now})
		failed := now()
		b.Report("a", 0, false)
		behind = time.Hour
		require.WithinDuration(t, now(), refused(t, b, "a"), 2*time.Second)
		require.Equal(t, failed, b.OpenSince("a"))
		time.Sleep(time.Second)
		require.NotZero(t, allowed(t, b, "a"))
	})
}

// TestRefusalsOfOneCallerKeepTheBreakerClosed: some callers of a healthy endpoint are refused
// whatever they do.
func TestRefusalsOfOneCallerKeepTheBreakerClosed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBreakers(t, limit.BreakerOptions{Failures: 1, Open: time.Second})
		b.Report("a", 0, false)
		time.Sleep(time.Second)
		first, second, third := allowed(t, b, "a"), allowed(t, b, "a"), allowed(t, b, "a")
		refused(t, b, "a") // three failures in a row suffice
		b.Report("a", first, false)
		b.Report("a", second, false)
		b.Cancel("a", third)
		b.Report("a", allowed(t, b, "a"), true)
		b.Report("a", allowed(t, b, "a"), false) // closed: the first failure opens it here
		for range 2 {
			refused(t, b, "a")
			time.Sleep(time.Second)
			for range 3 {
				b.Report("a", allowed(t, b, "a"), false)
			}
			require.GreaterOrEqual(
				t,
				time.Until(refused(t, b, "a")),
				2*time.Second,
				"all of a round failed",
			)
			time.Sleep(time.Second)
		}
	})
}

// TestAMomentOfFailuresDoesNotOpenABreaker: at thousands of calls a second, ten consecutive
// failures happen easily, for example of one path.
func TestAMomentOfFailuresDoesNotOpenABreaker(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBreakers(t, limit.BreakerOptions{})
		for range 1000 {
			b.Report("a", allowed(t, b, "a"), false)
		}
		time.Sleep(time.Second - time.Millisecond)
		b.Report("a", allowed(t, b, "a"), false)
		b.Report("a", allowed(t, b, "a"), true)
		for range 9 {
			b.Report("a", allowed(t, b, "a"), false)
		}
		time.Sleep(time.Second)
		b.Report("a", allowed(t, b, "a"), false)
		refused(t, b, "a") // only failures for a second
	})
}

// TestOnlyProbesAffectAnOpenBreaker: calls sent before a breaker opened end while its probe is
// running.
func TestOnlyProbesAffectAnOpenBreaker(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBreakers(t, limit.BreakerOptions{Failures: 1, Probes: 1, Open: time.Second})
		b.Report("a", 0, false)
		time.Sleep(time.Second)
		probe := allowed(t, b, "a")
		b.Report("a", 0, true)
		refused(t, b, "a") // an old success does not close it
		b.Report("a", 0, false)
		b.Cancel("a", 0)
		refused(t, b, "a") // the probe is still running
		b.Report("a", probe, true)
		require.Zero(
			t,
			allowed(t, b, "a"),
			"the old failure is not taken for the probe's: it would have stayed open",
		)
	})
}

func TestLostProbeDoesNotKeepABreakerOpen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBreakers(
			t,
			limit.BreakerOptions{Failures: 1, Probes: 1, Open: time.Second, Probe: time.Minute},
		)
		b.Report("a", 0, false)
		time.Sleep(time.Second)
		lost := allowed(t, b, "a")
		time.Sleep(59 * time.Second)
		refused(t, b, "a")
		time.Sleep(2 * time.Second)
		probe := allowed(t, b, "a")
		require.NotEqual(t, lost, probe)
		b.Cancel("a", lost)
		b.Report("a", lost, true)
		refused(t, b, "a") // the lost probe no longer counts
		b.Report("a", probe, true)
		allowed(t, b, "a")
	})
	_, err := limit.NewBreakers(limit.BreakerOptions{Failures: -1})
	require.ErrorContains(t, err, "negative")
}

func TestBreakersAreBounded(t *testing.T) {
	t.Parallel()
	b := newBreakers(t, limit.BreakerOptions{Failures: 1, Endpoints: 2})
	for _, e := range []string{"a", "b", "c"} {
		b.Report(e, 0, false)
	}
	allowed(t, b, "a") // the endpoint whose trouble is oldest is forgotten
	refused(t, b, "c")
}

func BenchmarkBreakers(b *testing.B) {
	x, err := limit.NewBreakers(limit.BreakerOptions{})
	require.NoError(b, err)
	b.ReportAllocs()
	for b.Loop() {
		_, probe := x.Allow("https://example.com")
		x.Report("https://example.com", probe, true)
	}
}
