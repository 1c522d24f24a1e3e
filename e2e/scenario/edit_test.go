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

// TestEditSupersedes: of two versions each instant that both have is called once, what only the old
// one has is skipped as superseded, and nothing falls between them.
func TestEditSupersedes(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, w *world) {
		id := w.active(t, "edited", client.Cron(everySecond), "/first")
		on := time.Now()
		pause(t, 3*time.Second)
		sure, asked := w.heard(t, on, id), time.Now()
		s, target := client.Cron("*/2 * * * * *"), client.Post(w.rcv.URL("/second"))
		tm, err := w.api.Edit(t.Context(), w.app, id, client.Change{Schedule: &s, Target: &target})
		require.NoError(t, err)
		require.EqualValues(t, 2, tm.Version)
		done := time.Now()
		end := done.Add(8 * time.Second)
		w.led.Every(id, time.Second, on, sure, ledger.Must)
		w.led.Every(id, time.Second, sure, done.Add(reach), ledger.May)
		w.led.Every(id, time.Second, done.Add(reach), end, ledger.Not)
		w.led.Every(id, 2*time.Second, asked, end, ledger.Must) // over those before
		pauseUntil(t, end)
		v := w.settle(t)
		require.NotZero(t, v.Skipped[timer.ReasonSuperseded])
		fires, err := w.api.History(t.Context(), w.app, id)
		require.NoError(t, err)
		for i := range fires {
			if f := &fires[i]; f.Status == "delivered" &&
				f.FireID().DueMS > done.Add(reach).UnixMilli() {
				require.EqualValues(t, 2, f.Version, f.Due)
			}
		}
	})
}

// TestEditOfTheTargetMovesWhatIsDue: an edit that leaves the schedule as it is loses and doubles no
// fire.
func TestEditOfTheTargetMovesWhatIsDue(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, w *world) {
		id := w.active(t, "target", client.Cron(everySecond), "/target-0")
		on := time.Now()
		for i := range 5 {
			pause(t, 1300*time.Millisecond)
			target := client.Post(w.rcv.URL(fmt.Sprintf("/target-%d", i+1)))
			_, err := w.api.Edit(t.Context(), w.app, id, client.Change{Target: &target})
			require.NoError(t, err)
		}
		end := time.Now().Add(3 * time.Second)
		pauseUntil(t, end)
		w.led.Every(id, time.Second, on, end, ledger.Must)
		w.settle(t)
		tm, err := w.api.Get(t.Context(), w.app, id)
		require.NoError(t, err)
		require.EqualValues(t, 6, tm.Version)
	})
}

// TestPutByName: whoever puts the same definition from several places at once has one timer;
// another definition edits it; the name is free after a delete.
func TestPutByName(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, w *world) {
		n := client.NewTimer{
			App:      w.app,
			Name:     "put",
			Schedule: client.Cron(everySecond),
			Target:   client.Post(w.rcv.URL("/put")),
			Status:   "active",
		}
		var eg errgroup.Group
		made := make(chan int, 8)
		for range cap(made) {
			eg.Go(func() error {
				_, a, err := w.api.Put(t.Context(), n)
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
		tm, found, err := w.api.Named(t.Context(), w.app, "put")
		require.NoError(t, err)
		require.True(t, found)
		id := tm.TimerID()
		on := time.Now()
		pause(t, 3*time.Second)
		sure, asked := w.heard(t, on, id), time.Now()
		n.Schedule = client.Cron("*/2 * * * * *")
		tm, a, err := w.api.Put(t.Context(), n)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, a.Status)
		require.Equal(t, id, tm.TimerID())
		require.EqualValues(t, 2, tm.Version)
		done := time.Now()
		end := done.Add(5 * time.Second)
		w.led.Every(id, time.Second, on, sure, ledger.Must)
		w.led.Every(id, time.Second, sure, done.Add(reach), ledger.May)
		w.led.Every(id, time.Second, done.Add(reach), end, ledger.Not)
		w.led.Every(id, 2*time.Second, asked, end, ledger.Must)
		pauseUntil(t, end)
		w.settle(t)
		require.NoError(t, w.api.DeleteNamed(t.Context(), w.app, "put"))
		_, found, err = w.api.Named(t.Context(), w.app, "put")
		require.NoError(t, err)
		require.False(t, found)
	})
}

// TestCalendarsAreHeardWhileTheyChange: a timer follows its calendar, also when that changes under
// it.
func TestCalendarsAreHeardWhileTheyChange(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, w *world) {
		never := client.Calendar{
			ExcludedWeekdays: []string{"mon", "tue", "wed", "thu", "fri", "sat", "sun"},
		}
		_, err := w.api.PutCalendar(t.Context(), w.app, "days", never)
		require.NoError(t, err)
		s := client.Cron(everySecond)
		s.Calendars = []string{"days"}
		id := w.active(t, "days", s, "/days")
		pause(t, 4*time.Second)
		require.Empty(t, w.rcv.Of(id), "no day is allowed")

		_, err = w.api.PutCalendar(t.Context(), w.app, "days", client.Calendar{})
		require.NoError(t, err)
		require.Eventually(
			t,
			func() bool { return len(w.rcv.Of(id)) >= 3 },
			patience,
			50*time.Millisecond,
			"every day is",
		)
		_, err = w.api.PutCalendar(t.Context(), w.app, "days", never)
		require.NoError(t, err)
		quiet := func() bool {
			calls := w.rcv.Of(id)
			return time.Since(calls[len(calls)-1].Arrived()) > 4*time.Second
		}
		require.Eventually(t, quiet, patience, 100*time.Millisecond, "no day is again")

		err = w.api.DeleteCalendar(t.Context(), w.app, "days")
		var e *client.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, http.StatusConflict, e.Status)
	})
}
