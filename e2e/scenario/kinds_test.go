package scenario

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/e2e/client"
	"github.com/carillon-timer/carillon/e2e/ledger"
	"github.com/carillon-timer/carillon/e2e/receiver"
	"github.com/carillon-timer/carillon/libs/timer"
)

// TestIntervalKeepsItsPhase checks that a fixed rate fires at anchor + phase + k × every, also
// after a pause.
func TestIntervalKeepsItsPhase(t *testing.T) {
	t.Parallel()
	runOnAll(t, func(t *testing.T, env *environment) {
		s := client.Every(3 * time.Second)
		s.Anchor, s.Phase = "2026-01-01T00:00:00Z", "1s"
		id := env.active(t, "phase", s, "/interval")
		require.Eventually(
			t,
			func() bool { return len(env.rcv.Of(id)) >= 2 },
			patience,
			20*time.Millisecond,
		)
		_, err := env.api.SetStatus(t.Context(), env.app, id, "inactive")
		require.NoError(t, err)
		pause(t, 2*time.Second)
		seen := len(env.rcv.Of(id))
		_, err = env.api.SetStatus(t.Context(), env.app, id, "active")
		require.NoError(t, err)
		require.Eventually(
			t,
			func() bool { return len(env.rcv.Of(id)) >= seen+2 },
			patience,
			20*time.Millisecond,
		)
		anchor := time.Date(2026, 1, 1, 0, 0, 1, 0, time.UTC).UnixMilli()
		for _, a := range env.rcv.Of(id) {
			require.Zero(t, (a.Fire.DueMS-anchor)%3000)
		}
		require.Empty(t, env.rcv.Of(id).Duplicates())
	})
}

// TestFixedDelayWaitsForTheLast checks that the next fire is due a delay after the end of the last
// one, and that the chain does not end.
func TestFixedDelayWaitsForTheLast(t *testing.T) {
	t.Parallel()
	runOnAll(t, func(t *testing.T, env *environment) {
		env.rcv.Script("/chain", receiver.Script{Delay: 1500 * time.Millisecond})
		id := env.active(t, "chain", client.FixedDelay(2*time.Second), "/chain")
		const links = 5
		require.Eventually(
			t,
			func() bool { return len(env.rcv.Of(id)) >= links },
			patience,
			20*time.Millisecond,
		)
		calls := env.rcv.Of(id)
		for i := 1; i < links; i++ {
			gap := calls[i].Arrived().Sub(time.Unix(0, calls[i-1].DoneNS))
			require.GreaterOrEqual(t, gap, 2*time.Second-clockTolerance, "link %d", i)
			require.NotEqual(t, calls[i-1].Fire, calls[i].Fire)
		}
		_, err := env.api.SetStatus(t.Context(), env.app, id, "inactive")
		require.NoError(t, err)
		off := time.Now()
		pause(t, 6*time.Second)
		for _, a := range env.rcv.Of(id) {
			require.LessOrEqual(
				t,
				a.Fire.DueMS,
				off.Add(reach).UnixMilli(),
				"a chain ends with its timer",
			)
		}
		_, err = env.api.SetStatus(t.Context(), env.app, id, "active")
		require.NoError(t, err)
		seen := len(env.rcv.Of(id))
		require.Eventually(
			t,
			func() bool { return len(env.rcv.Of(id)) >= seen+2 },
			patience,
			20*time.Millisecond,
			"and begins with it",
		)
	})
}

// TestWindowAndLimitOfFires checks that no fire is due before start_at or from end_at on. max_fires
// is exact although several replicas expand.
func TestWindowAndLimitOfFires(t *testing.T) {
	t.Parallel()
	runOnAll(t, func(t *testing.T, env *environment) {
		from := soon(4 * time.Second)
		until := from.Add(6 * time.Second)
		s := client.Cron(everySecond)
		s.StartAt, s.EndAt = from.UTC().Format(time.RFC3339), until.UTC().Format(time.RFC3339)
		window := env.active(t, "window", s, "/window")
		env.led.AddEvery(window, time.Second, from.Add(-3*time.Second), from, ledger.Not)
		env.led.AddEvery(window, time.Second, from, until, ledger.Must)

		s = client.Cron(everySecond)
		const most = 25 // more than one expansion: expandAhead is short
		s.MaxFires = most
		limited := env.active(t, "limited", s, "/limited")
		require.Eventually(
			t,
			func() bool { return len(env.rcv.Of(limited)) >= most },
			patience,
			50*time.Millisecond,
		)
		pauseUntil(t, until)
		env.led.AddEvery(window, time.Second, until, until.Add(3*time.Second), ledger.Not)
		pause(t, 4*time.Second)
		env.settle(t)
		require.Len(t, env.rcv.Of(limited).ByFire(), most)
		tm, err := env.api.Get(t.Context(), env.app, limited)
		require.NoError(t, err)
		require.EqualValues(t, most, tm.FiresCreated)
		require.Empty(t, tm.NextDue)
		dues := env.rcv.Of(limited).Dues()
		require.EqualValues(t, (most-1)*1000, dues[most-1]-dues[0], "no fire is missing")
	})
}

// TestPreviewMatchesFires checks that the previewed fires arrive, with several specs, a zone and a
// calendar.
func TestPreviewMatchesFires(t *testing.T) {
	t.Parallel()
	runOnAll(t, func(t *testing.T, env *environment) {
		now := time.Now().UTC()
		// A calendar that excludes some seconds of the next minute.
		gap := soon(6 * time.Second).UTC()
		_, err := env.api.PutCalendar(
			t.Context(),
			env.app,
			"hours",
			client.Calendar{TimeZone: "UTC", AllowedTimes: allowedBut(gap, gap.Add(4*time.Second))},
		)
		require.NoError(t, err)
		s := client.Cron("*/3 * * * * *", "*/2 * * * * *")
		s.TimeZone, s.Calendars = "Asia/Kathmandu", []string{"hours"}
		id := env.active(t, "foretold", s, "/foretold")
		on := time.Now()
		// Two in three seconds have a fire; some of them are after the gap.
		count := 8 + int(gap.Sub(on).Seconds())*2/3
		f, err := env.api.Preview(t.Context(), client.Preview{
			Schedule: s,
			From:     on.UTC().Format(time.RFC3339Nano),
			Count:    count,
			App:      env.app,
			TimerID:  id.String(),
		})
		require.NoError(t, err)
		require.Len(t, f.Fires, count)
		// Not over midnight, where the calendar has two ranges.
		if now.Day() == gap.Add(time.Minute).Day() {
			require.NotEmpty(t, f.Excluded)
		}
		var last time.Time
		for _, x := range f.Fires {
			require.False(
				t,
				x.Due.After(gap.Add(-time.Millisecond)) && x.Due.Before(gap.Add(4*time.Second)),
				"%s is excluded",
				x.Due,
			)
			env.led.Add(id, x.Due, ledger.Must)
			last = x.Due
		}
		for _, x := range f.Excluded {
			env.led.Add(id, x.Due, ledger.Not)
		}
		pauseUntil(t, last)
		env.settle(t)
	})
}

// allowedBut returns all times of the day except those between two instants.
func allowedBut(from, to time.Time) []client.TimeRange {
	const clock = "15:04:05"
	if from.Day() != to.Day() {
		return []client.TimeRange{{From: to.Format(clock), To: from.Format(clock)}}
	}
	return []client.TimeRange{
		{From: "00:00", To: from.Format(clock)},
		{From: to.Format(clock), To: "24:00"},
	}
}

// TestJitterIsLateAndNeverEarly checks that fires run within the jitter after their due instant,
// spread over it.
func TestJitterIsLateAndNeverEarly(t *testing.T) {
	t.Parallel()
	runOnAll(t, func(t *testing.T, env *environment) {
		const jitter = 4 * time.Second
		s := client.Cron(everySecond)
		s.Jitter = jitter.String()
		var ids []timer.ID
		for _, name := range []string{"a", "b", "c", "d"} {
			ids = append(ids, env.active(t, name, s, "/jitter"))
		}
		require.Eventually(
			t,
			func() bool { return len(env.rcv.Of(ids...)) >= 60 },
			patience,
			50*time.Millisecond,
		)
		late := 0
		for _, a := range env.rcv.Of(ids...) {
			require.Greater(t, a.Lateness(), -clockTolerance)
			if a.Lateness() > jitter/4 {
				late++
			}
		}
		require.Greater(t, late, 20, "three of four are")
		require.Empty(t, env.rcv.Of(ids...).Duplicates())
	})
}
