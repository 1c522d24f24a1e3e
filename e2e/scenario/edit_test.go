package scenario

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/carillon-timer/carillon/e2e/client"
	"github.com/carillon-timer/carillon/e2e/ledger"
	"github.com/carillon-timer/carillon/libs/timer"
)

// TestEditSupersedes checks an edit of a schedule. Each instant that both versions have is called
// once. The instants of the old version alone are skipped as superseded. No instant is lost.
func TestEditSupersedes(t *testing.T) {
	t.Parallel()
	runOnAll(t, func(t *testing.T, env *environment) {
		id := env.active(t, "edited", client.Cron(everySecond), "/first")
		on := time.Now()
		pause(t, 3*time.Second)
		sure, asked := env.awaitCalled(t, on, id), time.Now()
		s, target := client.Cron("*/2 * * * * *"), client.Post(env.rcv.URL("/second"))
		tm, err := env.api.Edit(
			t.Context(),
			env.app,
			id,
			client.Change{Schedule: &s, Target: &target},
		)
		require.NoError(t, err)
		require.EqualValues(t, 2, tm.Version)
		done := time.Now()
		end := done.Add(8 * time.Second)
		env.led.AddEvery(id, time.Second, on, sure, ledger.Must)
		env.led.AddEvery(id, time.Second, sure, done.Add(reach), ledger.May)
		env.led.AddEvery(id, time.Second, done.Add(reach), end, ledger.Not)
		env.led.AddEvery(id, 2*time.Second, asked, end, ledger.Must) // replaces the duties above
		pauseUntil(t, end)
		v := env.settle(t)
		require.NotZero(t, v.Skipped[timer.ReasonSuperseded])
		fires, err := env.api.History(t.Context(), env.app, id)
		require.NoError(t, err)
		for i := range fires {
			if f := &fires[i]; f.Status == "delivered" &&
				f.FireID().DueMS > done.Add(reach).UnixMilli() {
				require.EqualValues(t, 2, f.Version, f.Due)
			}
		}
	})
}

// TestTargetEditAppliesToOpenFires checks that an edit which keeps the schedule loses and repeats
// no fire.
func TestTargetEditAppliesToOpenFires(t *testing.T) {
	t.Parallel()
	runOnAll(t, func(t *testing.T, env *environment) {
		id := env.active(t, "target", client.Cron(everySecond), "/target-0")
		on := time.Now()
		for i := range 5 {
			pause(t, 1300*time.Millisecond)
			target := client.Post(env.rcv.URL(fmt.Sprintf("/target-%d", i+1)))
			_, err := env.api.Edit(t.Context(), env.app, id, client.Change{Target: &target})
			require.NoError(t, err)
		}
		end := time.Now().Add(3 * time.Second)
		pauseUntil(t, end)
		env.led.AddEvery(id, time.Second, on, end, ledger.Must)
		env.settle(t)
		tm, err := env.api.Get(t.Context(), env.app, id)
		require.NoError(t, err)
		require.EqualValues(t, 6, tm.Version)
	})
}

// TestPutByName checks that concurrent puts of one definition make one timer. Another definition
// edits it. The name is free after a delete.
func TestPutByName(t *testing.T) {
	t.Parallel()
	runOnAll(t, func(t *testing.T, env *environment) {
		n := client.NewTimer{
			App:      env.app,
			Name:     "put",
			Schedule: client.Cron(everySecond),
			Target:   client.Post(env.rcv.URL("/put")),
			Status:   "active",
		}
		var eg errgroup.Group
		made := make(chan int, 8)
		for range cap(made) {
			eg.Go(func() error {
				_, a, err := env.api.PutByName(t.Context(), n)
				made <- a.Status
				return err //nolint:wrapcheck // the test tells it
			})
		}
		require.NoError(t, eg.Wait())
		close(made)
		created := 0
		for status := range made {
			if status == http.StatusCreated {
				created++
			}
		}
		require.Equal(t, 1, created)
		tm, found, err := env.api.GetByName(t.Context(), env.app, "put")
		require.NoError(t, err)
		require.True(t, found)
		id := tm.TimerID()
		on := time.Now()
		pause(t, 3*time.Second)
		sure, asked := env.awaitCalled(t, on, id), time.Now()
		n.Schedule = client.Cron("*/2 * * * * *")
		tm, a, err := env.api.PutByName(t.Context(), n)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, a.Status)
		require.Equal(t, id, tm.TimerID())
		require.EqualValues(t, 2, tm.Version)
		done := time.Now()
		end := done.Add(5 * time.Second)
		env.led.AddEvery(id, time.Second, on, sure, ledger.Must)
		env.led.AddEvery(id, time.Second, sure, done.Add(reach), ledger.May)
		env.led.AddEvery(id, time.Second, done.Add(reach), end, ledger.Not)
		env.led.AddEvery(id, 2*time.Second, asked, end, ledger.Must)
		pauseUntil(t, end)
		env.settle(t)
		require.NoError(t, env.api.DeleteByName(t.Context(), env.app, "put"))
		_, found, err = env.api.GetByName(t.Context(), env.app, "put")
		require.NoError(t, err)
		require.False(t, found)
	})
}

// TestCalendarChangesTakeEffect checks that a timer follows its calendar, also after the calendar
// changes.
func TestCalendarChangesTakeEffect(t *testing.T) {
	t.Parallel()
	runOnAll(t, func(t *testing.T, env *environment) {
		never := client.Calendar{
			ExcludedWeekdays: []string{"mon", "tue", "wed", "thu", "fri", "sat", "sun"},
		}
		_, err := env.api.PutCalendar(t.Context(), env.app, "days", never)
		require.NoError(t, err)
		s := client.Cron(everySecond)
		s.Calendars = []string{"days"}
		id := env.active(t, "days", s, "/days")
		pause(t, 4*time.Second)
		require.Empty(t, env.rcv.Of(id), "no day is allowed")

		_, err = env.api.PutCalendar(t.Context(), env.app, "days", client.Calendar{})
		require.NoError(t, err)
		require.Eventually(
			t,
			func() bool { return len(env.rcv.Of(id)) >= 3 },
			patience,
			50*time.Millisecond,
			"every day is allowed",
		)
		_, err = env.api.PutCalendar(t.Context(), env.app, "days", never)
		require.NoError(t, err)
		quiet := func() bool {
			calls := env.rcv.Of(id)
			return time.Since(calls[len(calls)-1].Arrived()) > 4*time.Second
		}
		require.Eventually(t, quiet, patience, 100*time.Millisecond, "no day is allowed again")

		err = env.api.DeleteCalendar(t.Context(), env.app, "days")
		var e *client.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, http.StatusConflict, e.Status)
	})
}
