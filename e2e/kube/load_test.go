package kube_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/carillon-timer/carillon/e2e/client"
	"github.com/carillon-timer/carillon/e2e/kube"
	"github.com/carillon-timer/carillon/e2e/ledger"
	"github.com/carillon-timer/carillon/e2e/receiver"
	"github.com/carillon-timer/carillon/libs/timer"
)

// Composition of the load: crons of each second, and one-shots that are created meanwhile.
const (
	crons    = 200
	oneShots = 100 // per second, evenly spread
	// ahead is the time from the start of a one-shot's creation to its instant. The API may be
	// moving between pods then.
	ahead   = 15 * time.Second
	callers = 48
	// tryTimeout bounds a request. A connection to a pod that was deleted by force does not answer.
	tryTimeout     = 3 * time.Second
	patience       = 90 * time.Second
	clockTolerance = 100 * time.Millisecond
	recordTimeout  = 3 * time.Second
)

// load makes 300 fires a second and has their ledger.
type load struct {
	api *client.Client
	rcv *receiver.Receiver
	led *ledger.Ledger
	app string

	cancel context.CancelFunc
	done   chan error
	crons  []timer.ID
	asked  time.Time // first create request for a cron
	active time.Time // when all crons were active

	mu            sync.Mutex
	late          int // one-shots that were created after their due instant; they are not checked
	interruptions []ledger.Interruption

	slow map[lateGroup]int // fires more than a second late; set by outcomes
}

// lateGroup is the due second of late fires, what brought them to their executor, and what they
// waited for there.
type lateGroup struct{ due, path, waitedFor string }

// startLoad starts the load and returns once its first one-shots are due.
func startLoad(t *testing.T, c *kube.Cluster, s *kube.Settings, app string) *load {
	t.Helper()
	rcv, err := receiver.Start(t.Context(), net.JoinHostPort(s.Host, "0"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, rcv.Close()) })
	l := &load{
		api: client.New(
			c.API,
		),
		rcv:   rcv,
		led:   ledger.New(),
		app:   fmt.Sprintf("%s-%d", app, time.Now().UnixMilli()),
		done:  make(chan error, 1),
		asked: time.Now(),
		crons: make([]timer.ID, crons),
	}
	t.Cleanup(l.api.Close)
	eg, ctx := errgroup.WithContext(t.Context())
	eg.SetLimit(callers)
	for i := range l.crons {
		eg.Go(func() (err error) {
			l.crons[i], err = l.create(ctx, fmt.Sprintf("cron-%d", i), client.Cron("* * * * * *"))
			return err
		})
	}
	require.NoError(t, eg.Wait())
	l.active = time.Now()
	ctx, l.cancel = context.WithCancel(context.WithoutCancel(t.Context()))
	go func() { l.done <- l.createOneShots(ctx, l.active.Add(ahead)) }()
	pause(t, ahead)
	return l
}

// createOneShots creates one-shots until ctx ends.
func (l *load) createOneShots(ctx context.Context, first time.Time) error {
	var eg errgroup.Group
	eg.SetLimit(callers)
	for i := 0; ctx.Err() == nil; i++ {
		at := first.Add(time.Duration(i) * time.Second / oneShots).Truncate(time.Millisecond)
		select {
		case <-time.After(time.Until(at.Add(-ahead))):
		case <-ctx.Done():
			return eg.Wait()
		}
		eg.Go(func() error {
			id, err := l.create(
				context.WithoutCancel(ctx),
				fmt.Sprintf("shot-%d", i),
				client.At(at),
			)
			if err != nil {
				return err
			}
			if time.Now().After(at) {
				l.mu.Lock()
				defer l.mu.Unlock()
				l.late++
				return nil
			}
			l.led.Add(id, at, ledger.Must)
			return nil
		})
	}
	return eg.Wait()
}

// create repeats an unanswered request until there is an answer. The same timer twice is one timer.
func (l *load) create(ctx context.Context, name string, s client.Schedule) (timer.ID, error) {
	last := time.Now().Add(patience)
	for {
		try, cancel := context.WithTimeout(ctx, tryTimeout)
		tm, _, err := l.api.Create(
			try,
			client.NewTimer{
				App:      l.app,
				Name:     name,
				Schedule: s,
				Target:   client.Post(l.rcv.URL("/load")),
				Status:   "active",
			},
		)
		cancel()
		if err == nil {
			return tm.TimerID(), nil
		}
		var refused *client.Error
		if errors.As(err, &refused) && refused.Status < http.StatusInternalServerError ||
			time.Now().After(last) {
			return 0, fmt.Errorf("creating %s: %w", name, err)
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

// addInterruption records that calls may have been cut off between two instants.
func (l *load) addInterruption(from, until time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.interruptions = append(
		l.interruptions,
		ledger.Interruption{At: from, Until: until, Recording: recordTimeout},
	)
}

// finish ends the load, waits until all fires are called and recorded, and returns the verdict.
func (l *load) finish(t *testing.T) ledger.Verdict {
	t.Helper()
	l.cancel()
	require.NoError(t, <-l.done)
	until := time.Now()
	for _, id := range l.crons {
		l.led.AddEvery(id, time.Second, l.asked, l.active, ledger.May)
		l.led.AddEvery(id, time.Second, l.active, until, ledger.Must)
	}
	require.Eventually(t, func() bool {
		seen := make(map[timer.FireID]bool)
		for _, a := range l.rcv.Arrivals() {
			seen[a.Fire] = true
		}
		return l.led.CountMissing(seen) == 0
	}, patience, 500*time.Millisecond, "fires are missing")
	// Deactivate only then: a late fire of an inactive timer is not called any more.
	for _, id := range l.crons {
		_, err := l.api.SetStatus(t.Context(), l.app, id, "inactive")
		require.NoError(t, err)
	}
	var v ledger.Verdict
	require.Eventually(t, func() bool {
		outcomes, err := l.outcomes(t.Context())
		require.NoError(t, err)
		l.mu.Lock()
		defer l.mu.Unlock()
		v = l.led.Check(
			ledger.Evidence{
				Arrivals:      l.rcv.Arrivals(),
				Outcomes:      outcomes,
				Interruptions: l.interruptions,
				Clocks:        clockTolerance,
			},
		)
		return len(v.NoOutcome) == 0
	}, patience, time.Second)
	t.Logf(
		"%d one-shots were created too late to be checked\n%s\n%s\nthe latest:\n%s\n%s",
		l.late,
		ledger.Heading,
		v.Row(t.Name()),
		l.maxLateness(),
		l.slowGroups(),
	)
	require.Empty(t, v.Faults())
	return v
}

// outcomes reads the history of every timer.
func (l *load) outcomes(ctx context.Context) ([]ledger.Outcome, error) {
	var mu sync.Mutex
	all := make([]ledger.Outcome, 0, l.led.Len())
	slow := map[lateGroup]int{}
	eg, ctx := errgroup.WithContext(ctx)
	eg.SetLimit(callers)
	for _, id := range l.led.Timers() {
		eg.Go(func() error {
			fires, err := l.api.History(ctx, l.app, id)
			if err != nil {
				return fmt.Errorf("history of %s: %w", id, err)
			}
			mu.Lock()
			defer mu.Unlock()
			for i := range fires {
				o, err := fires[i].LedgerOutcome()
				if err != nil {
					return err //nolint:wrapcheck // it says what it was doing
				}
				all = append(all, o)
				if f := &fires[i]; f.LatenessMS > time.Second.Milliseconds() {
					due := time.UnixMilli(o.Fire.DueMS).UTC().Format(time.TimeOnly)
					slow[lateGroup{due, f.Path, f.WaitedFor}]++
				}
			}
			return nil
		})
	}
	err := eg.Wait()
	l.slow = slow
	return all, err //nolint:wrapcheck // it says what it was doing
}

// lateBetween describes the lateness of fires due between two instants.
func (l *load) lateBetween(from, until time.Time) string {
	var late []time.Duration
	slow := 0
	for _, a := range l.rcv.Arrivals() {
		if due := time.UnixMilli(
			a.Fire.DueMS,
		); a.Attempt <= 1 && !due.Before(from) &&
			due.Before(until) {
			late = append(late, a.Lateness())
			if a.Lateness() > time.Second {
				slow++
			}
		}
	}
	q := receiver.QuantilesOf(late)
	return fmt.Sprintf("of %d fires %d were more than 1 s late; p50 %s, p99 %s, max %s", q.N, slow,
		q.P50.Round(time.Millisecond), q.P99.Round(time.Millisecond), q.Max.Round(time.Millisecond))
}

// slowGroups counts the fires more than a second late by due second, path and wait.
func (l *load) slowGroups() string {
	groups := slices.SortedFunc(maps.Keys(l.slow), func(a, b lateGroup) int {
		return cmp.Or(
			cmp.Compare(a.due, b.due),
			cmp.Compare(a.path, b.path),
			cmp.Compare(a.waitedFor, b.waitedFor),
		)
	})
	var b strings.Builder
	for _, g := range groups {
		fmt.Fprintf(
			&b,
			"due %s: %d more than 1 s late, found by %s, waited for %s\n",
			g.due,
			l.slow[g],
			g.path,
			g.waitedFor,
		)
	}
	return b.String()
}

// maxLateness lists the fires with the greatest lateness.
func (l *load) maxLateness() string {
	const most = 8
	as := l.rcv.Arrivals()
	slices.SortFunc(
		as,
		func(a, b receiver.Arrival) int { return cmp.Compare(b.Lateness(), a.Lateness()) },
	)
	var b strings.Builder
	for _, a := range as[:min(most, len(as))] {
		fmt.Fprintf(
			&b,
			"%s due %s, %s late, attempt %d\n",
			a.Fire,
			time.UnixMilli(a.Fire.DueMS).UTC().Format(time.TimeOnly),
			a.Lateness().Round(time.Millisecond),
			a.Attempt,
		)
	}
	return b.String()
}

func pause(t *testing.T, d time.Duration) {
	t.Helper()
	select {
	case <-time.After(d):
	case <-t.Context().Done():
		require.NoError(t, t.Context().Err())
	}
}
