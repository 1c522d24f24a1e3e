package executor_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/executor"
	"github.com/carillon-timer/carillon/services/servicetest"
)

// calendar creates a calendar, and returns a function that deletes it after an edit by which the
// timer no longer names it. Its open fires keep the version that does.
func calendar(
	t *testing.T, parts *servicetest.Parts,
) (name string, remove func(timer.ID, timer.Definition)) {
	t.Helper()
	const of = "days"
	days := timer.Calendar{Name: of, ExcludedDates: []string{"2099-01-01"}}
	_, err := parts.Store.PutCalendar(t.Context(), "a", days, 0)
	require.NoError(t, err)
	return of, func(id timer.ID, d timer.Definition) {
		d.Schedule.Calendars = nil
		edits := []store.Edit{{App: "a", ID: id, Definition: d}}
		done, err := parts.Store.Edit(t.Context(), edits, parts.Plan)
		require.NoError(t, err)
		require.NoError(t, done[0].Err)
		require.NoError(t, parts.Store.DeleteCalendar(t.Context(), "a", of))
	}
}

// TestAFixedDelayEndsThoughItsCalendarIsDeleted checks that a call is recorded, once, if the calendar
// of its version is deleted meanwhile.
func TestAFixedDelayEndsThoughItsCalendarIsDeleted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		name, remove := calendar(t, parts)
		r := &receiver{takes: 20 * time.Second}
		start(t, parts, "one", r, nil)
		d := servicetest.Cron("", "http://127.0.0.1/")
		d.Schedule = timer.Schedule{
			Kind: timer.KindFixedDelay, Every: timer.Duration(4 * time.Second),
			Calendars: []string{name},
		}
		d.Retry.Timeout = timer.Duration(time.Minute)
		fires := parts.Create("a", d)
		parts.Dispatch.Committed(t.Context(), fires)
		time.Sleep(10 * time.Second) // the call is under way
		d.Schedule.Every = timer.Duration(time.Hour)
		remove(fires[0].Timer, d)
		time.Sleep(time.Minute)
		require.Equal(t, map[string]int{"delivered": 1}, reasons(t, parts, fires))
		require.Equal(t, 1, r.total())
	})
}

// TestNoFireStaysOpenAfterItsTimerAndCalendar checks that the open fire of a deleted fixed delay is
// skipped, though its calendar is deleted, too.
func TestNoFireStaysOpenAfterItsTimerAndCalendar(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		name, _ := calendar(t, parts)
		start(t, parts, "one", &receiver{}, func(o *executor.Options) { o.PollAhead = time.Second })
		d := servicetest.Cron("", "http://127.0.0.1/")
		d.Schedule = timer.Schedule{
			Kind: timer.KindFixedDelay, Every: timer.Duration(time.Minute),
			Calendars: []string{name},
		}
		fires := parts.Create("a", d)
		changes := []store.StatusChange{
			{App: "a", ID: fires[0].Timer, Status: timer.StatusDeleted},
		}
		_, err := parts.Store.SetStatus(t.Context(), changes, parts.Plan)
		require.NoError(t, err)
		require.NoError(t, parts.Store.DeleteCalendar(t.Context(), "a", name))
		time.Sleep(5 * time.Minute)
		require.Equal(t, map[string]int{"skipped:deleted": 1}, reasons(t, parts, fires))
	})
}

// TestLateFiresAreCalledThoughTheirCalendarIsDeleted checks the late fires of fire_all, which are
// counted by the schedule of their version.
func TestLateFiresAreCalledThoughTheirCalendarIsDeleted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		name, remove := calendar(t, parts)
		d := servicetest.Cron("*/10 * * * * *", "http://127.0.0.1/")
		d.Schedule.Calendars = []string{name}
		d.Misfire = timer.Misfire{
			Policy: timer.MisfireFireAll, Grace: timer.Duration(time.Second),
		}
		fires := parts.Create("a", d)
		time.Sleep(2 * time.Minute) // no executor runs
		before := time.Now().UnixMilli()
		remove(fires[0].Timer, d)
		start(t, parts, "one", &receiver{}, nil)
		time.Sleep(5 * time.Minute)
		var late []timer.Fire
		for i := range fires {
			if fires[i].DueMS < before {
				late = append(late, fires[i])
			}
		}
		require.Equal(t, map[string]int{"delivered": len(late)}, reasons(t, parts, late))
		require.Greater(t, len(late), 10)
	})
}
