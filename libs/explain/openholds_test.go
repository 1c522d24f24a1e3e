package explain_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/explain"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// openNow returns the holds about open fires that a question about an instant gets.
func (fx *fixture) openNow(t *testing.T, at string, h *holds) (out []explain.Hold) {
	t.Helper()
	facts := fx.read(t, ms(at), ms(at)+1, 1)
	h.open = fx.open
	all, err := facts.ReadHolds(t.Context(), h, facts.Explain())
	require.NoError(t, err)
	for _, one := range all {
		if one.Code == explain.HoldOpenFire || one.Code == explain.HoldMoreOpen {
			out = append(out, one)
		}
	}
	return out
}

// TestPresentTellsOfOpenFires checks that a question about the present tells of an open fire what a
// question about its instant tells.
func TestPresentTellsOfOpenFires(t *testing.T) {
	t.Parallel()
	later := ms(now) + 60_000
	run := timer.Fire{FireID: timer.FireID{Series: 3}, Cause: timer.CauseRunNow}
	for name, tt := range map[string]struct {
		fire timer.Fire
		code explain.Code
		text string
	}{
		"retry": {
			timer.Fire{State: timer.FireRetrying, Attempt: 2, RunAtMS: later},
			explain.WaitsForRetry,
			"2 attempts have failed; the next one is at 2026-01-10T12:01:00Z.",
		},
		"accepted": {
			timer.Fire{State: timer.FireAccepted, Attempt: 1, RunAtMS: later},
			explain.WaitsForCompleted,
			"The receiver has accepted the fire and has until 2026-01-10T12:01:00Z to complete it.",
		},
		"run-now": {
			run, explain.Overdue,
			"Requested by a run_now at 2026-01-05T09:00:00Z. The fire should have been called at " +
				"2026-01-05T09:00:00Z, and no executor has claimed it yet.",
		},
		"called": {
			timer.Fire{Owner: 9},
			explain.InProgress,
			"An executor has the fire, and may call it now: it is being called, is about to be, or its " +
				"result is not recorded yet. Only that executor knows.",
		},
	} {
		fx := newFixture()
		fx.open = []timer.Fire{fire(due, tt.fire)}
		h := &holds{sessions: []store.Session{{ID: 9, Kind: store.ExecutorSession}}}
		got := fx.openNow(t, now, h)
		require.Len(t, got, 1, name)
		require.Equal(t, tt.code, got[0].Answer.Code, name)
		require.Equal(t, tt.text, got[0].Answer.Text, name)
		require.Equal(t, fx.open[0].FireID, got[0].Answer.Open.FireID, name)
		require.Equal(
			t,
			"The fire "+fx.open[0].FireID.String()+", due at 2026-01-05T09:00:00Z, is open ("+
				string(tt.code)+"): "+tt.text,
			got[0].Text,
			name,
		)
		asked := fx.at(t, due)
		require.Equal(t, *got[0].Answer, asked[len(asked)-1], name)
		require.Empty(t, fx.openNow(t, due, h), "the answer itself has it")
	}
	require.Empty(t, newFixture().openNow(t, now, &holds{}))
	require.Empty(t, newFixture().openNow(t, now, &holds{more: true}), "none is known")
}

// TestPresentTellsOfTheOldestOpenFires checks that of many open fires three are told of, and how
// many more there are.
func TestPresentTellsOfTheOldestOpenFires(t *testing.T) {
	t.Parallel()
	fx := newFixture()
	for _, at := range []string{
		"2026-01-06T09:00:00Z", "2026-01-07T09:00:00Z", "2026-01-08T09:00:00Z", "2026-01-09T09:00:00Z",
	} {
		fx.open = append(fx.open, fire(at, timer.Fire{
			FireID: timer.FireID{Series: int64(owner)}, Cause: timer.CauseBackfill,
		}))
	}
	got := fx.openNow(t, now, &holds{})
	require.Len(t, got, 4)
	for i := range 3 {
		require.Equal(t, fx.open[i].FireID, got[i].Answer.Open.FireID)
		require.Contains(t, got[i].Text, "is open (overdue): Requested by a backfill at ")
	}
	require.Equal(t, explain.Hold{
		Code: explain.HoldMoreOpen, Text: "Of the timer 1 fire more that came due is open.",
	}, got[3])
	fx.open = append(fx.open, fire(now, timer.Fire{
		FireID: timer.FireID{Series: int64(owner)}, Cause: timer.CauseBackfill,
	}))
	require.Len(t, fx.openNow(t, now, &holds{}), 4, "the last one is of the present itself")
	got = fx.openNow(t, coming, &holds{more: true})
	require.Equal(t, "Of the timer at least 2 fires more that came due are open.", got[3].Text)
}

// TestOpenFireOfAnOlderVersion checks that an open fire is not judged by a version that was not in
// force at its instant.
func TestOpenFireOfAnOlderVersion(t *testing.T) {
	t.Parallel()
	fx := newFixture()
	for _, at := range []string{"2026-01-06T00:00:00Z", "2026-01-07T00:00:00Z", "2026-01-08T00:00:00Z"} {
		fx.edit(at, daily("0 10 * * *"))
	}
	jittered := timer.Fire{RunAtMS: ms(now) + 1000}
	fx.open = []timer.Fire{fire(due, jittered), fire("2026-01-09T09:00:00Z", jittered)}
	var codes []explain.Code
	for _, h := range fx.openNow(t, now, &holds{}) {
		codes = append(codes, h.Answer.Code)
	}
	require.Equal(t, []explain.Code{explain.Planned, explain.Edited}, codes)
}
