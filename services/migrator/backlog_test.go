package migrator_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/servicetest"
)

// noZone is the planner of a process that does not know the zone of a timer.
func noZone(t *timer.Timer, _ int64) store.Plan {
	return store.Plan{Err: errors.New("unknown time zone"), NextDueMS: t.NextDueMS}
}

// backlog creates a timer that is due each second, and lets migrators be away for a while.
func backlog(
	parts *servicetest.Parts, grace, jitter timer.Duration, away time.Duration,
) (first timer.Fire, d timer.Definition) {
	d = servicetest.Cron("* * * * * *", "https://example.com/")
	d.Misfire.Grace, d.Schedule.Jitter = grace, jitter
	first = parts.Create("a", d)[0]
	time.Sleep(away)
	return first, d
}

func setStatus(
	t *testing.T, parts *servicetest.Parts, id timer.ID, status timer.Status, plan store.Planner,
) {
	t.Helper()
	out, err := parts.Store.SetStatus(
		t.Context(), []store.StatusChange{{App: "a", ID: id, Status: status}}, plan)
	require.NoError(t, err)
	require.NoError(t, out[0].Err)
}

// requireBacklog checks one instant of each minute before untilMS: it has a fire, or lies in a
// stretch that one record stands for.
func requireBacklog(t *testing.T, parts *servicetest.Parts, first timer.Fire, untilMS int64) {
	t.Helper()
	ctx := t.Context()
	stretches, err := parts.Store.History(ctx, "a", first.Timer, timer.FireID{}, 100)
	require.NoError(t, err)
	lost := 0
	for due := first.DueMS; due < untilMS; due += timer.MinuteMS {
		fires := 0
		_, err := parts.Store.Fire(ctx, "a", timer.FireID{Timer: first.Timer, DueMS: due})
		if timer.CodeOf(err) != timer.CodeNotFound {
			require.NoError(t, err)
			fires++
		}
		for i := range stretches {
			if o := &stretches[i]; o.DueMS < due && due <= o.UntilMS {
				fires++
			}
		}
		require.LessOrEqual(t, fires, 1)
		lost += 1 - fires
	}
	require.Zero(t, lost, "instants of the active timer without fire and outcome")
}

// TestAPauseLosesNoBacklog checks that each instant which was due while a timer was active has a fire
// or a record, although migrators were away until the timer was paused.
func TestAPauseLosesNoBacklog(t *testing.T) {
	t.Parallel()
	grace, jitter := timer.Duration(24*time.Hour), timer.Duration(24*time.Hour)
	for name, c := range map[string]struct {
		grace, jitter timer.Duration
		away          time.Duration
		plan          store.Planner // of the process that pauses; nil: as all others
	}{
		"more than one change inserts": {grace: grace, away: 12 * time.Hour},
		"not planned":                  {grace: grace, away: 12 * time.Minute, plan: noZone},
		"not late by its jitter":       {jitter: jitter, away: 23 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				parts := servicetest.New(t, servicetest.Options{})
				first, _ := backlog(parts, c.grace, c.jitter, c.away)
				paused := time.Now().UnixMilli()
				plan := c.plan
				if plan == nil {
					plan = parts.Plan
				}
				setStatus(t, parts, first.Timer, timer.StatusPaused, plan)
				time.Sleep(time.Minute)
				setStatus(t, parts, first.Timer, timer.StatusActive, parts.Plan)
				startJobs(t, parts, parts.Store)
				time.Sleep(time.Hour)
				requireBacklog(t, parts, first, paused)
			})
		})
	}
}

// TestAnEditLosesNoBacklog checks that each instant which the version before an edit had until then
// has a fire or a record, although migrators were away until the edit.
func TestAnEditLosesNoBacklog(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		first, next := backlog(parts, timer.Duration(24*time.Hour), 0, 12*time.Hour)
		edited := time.Now().UnixMilli()
		next.Schedule.Specs = []string{"0 0 0 1 1 *"}
		out, err := parts.Store.Edit(t.Context(), []store.Edit{
			{App: "a", ID: first.Timer, IfVersion: 1, Definition: next},
		}, parts.Plan)
		require.NoError(t, err)
		require.NoError(t, out[0].Err)
		startJobs(t, parts, parts.Store)
		time.Sleep(time.Hour)
		requireBacklog(t, parts, first, edited)
	})
}

// TestNoBacklogWithoutAnInstant checks that a timer which was active between two of its instants has
// no record of misfires, if the process that pauses it cannot plan it.
func TestNoBacklogWithoutAnInstant(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		made, err := parts.Store.Create(t.Context(), []store.NewTimer{{
			App: "a", Name: "x", Activate: true,
			Definition: servicetest.Cron("0 30 12 * * *", "https://example.com/"),
		}}, parts.Plan)
		require.NoError(t, err)
		id := made[0].Timer.ID
		setStatus(t, parts, id, timer.StatusPaused, noZone)
		time.Sleep(72 * time.Hour)
		setStatus(t, parts, id, timer.StatusActive, noZone)
		time.Sleep(30 * time.Second)
		setStatus(t, parts, id, timer.StatusPaused, noZone)
		finished, err := parts.Store.History(t.Context(), "a", id, timer.FireID{}, 100)
		require.NoError(t, err)
		require.Empty(t, finished)
	})
}
