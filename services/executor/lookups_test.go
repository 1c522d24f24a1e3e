package executor_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/callback"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/executor"
	"github.com/carillon-timer/carillon/services/servicetest"
)

// silent is a store that answers no question of one kind about an app, until answers is closed.
type silent struct {
	executor.Store
	kind    string
	app     string
	appID   int64
	timers  map[timer.ID]bool // of the app
	answers chan struct{}
	asked   atomic.Int64
}

func (s *silent) wait(ctx context.Context, kind string, about bool) error {
	if kind != s.kind || !about {
		return nil
	}
	s.asked.Add(1)
	select {
	case <-s.answers:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *silent) AppsByID(ctx context.Context, ids []int64) ([]store.App, error) {
	if err := s.wait(ctx, "settings", slices.Contains(ids, s.appID)); err != nil {
		return nil, err
	}
	return s.Store.AppsByID(ctx, ids)
}

func (s *silent) Calendar(ctx context.Context, app, name string) (store.CalendarVersion, error) {
	if err := s.wait(ctx, "calendar", app == s.app); err != nil {
		return store.CalendarVersion{}, err
	}
	return s.Store.Calendar(ctx, app, name)
}

func (s *silent) AcquireSlots(
	ctx context.Context,
	session timer.ID,
	requests []store.SlotRequest,
) ([]store.SlotResult, error) {
	about := slices.ContainsFunc(requests, func(r store.SlotRequest) bool {
		return r.Fire.AppID == s.appID
	})
	if err := s.wait(ctx, "slot", about); err != nil {
		return nil, err
	}
	return s.Store.AcquireSlots(ctx, session, requests)
}

func (s *silent) CatchUp(ctx context.Context, requests []store.CatchUpRequest) ([]bool, error) {
	about := slices.ContainsFunc(requests, func(r store.CatchUpRequest) bool {
		return s.timers[r.Timer]
	})
	if err := s.wait(ctx, "catch-up", about); err != nil {
		return nil, err
	}
	return s.Store.CatchUp(ctx, requests)
}

func (s *silent) Definitions(
	ctx context.Context,
	keys []store.VersionKey,
) (map[store.VersionKey]*timer.Definition, error) {
	about := slices.ContainsFunc(keys, func(k store.VersionKey) bool { return s.timers[k.Timer] })
	if err := s.wait(ctx, "definition", about); err != nil {
		return nil, err
	}
	return s.Store.Definitions(ctx, keys)
}

func (s *silent) SetStatus(
	ctx context.Context,
	items []store.StatusChange,
	plan store.Planner,
) ([]store.StatusResult, error) {
	if err := s.wait(ctx, "pause", items[0].App == s.app); err != nil {
		return nil, err
	}
	return s.Store.SetStatus(ctx, items, plan)
}

// TestAnUnansweredQuestionOccupiesNoWorker checks that fires of one app whose questions the store
// does not answer hold no worker, though they are more than the workers: another app's fires are
// called. Once the store answers, the first app's fires are, too.
func TestAnUnansweredQuestionOccupiesNoWorker(t *testing.T) {
	t.Parallel()
	const workers, fires = 32, 100
	for kind, tt := range map[string]struct {
		change func(d *timer.Definition)
		late   bool
		gone   bool
		called int // before the store answers
	}{
		"settings": {},
		"slot":     {change: func(d *timer.Definition) { d.Concurrency.Policy = timer.ConcurrencySkip }},
		"catch-up": {change: func(d *timer.Definition) {
			d.Misfire = timer.Misfire{
				Policy: timer.MisfireFireOnce,
				Grace:  timer.Duration(time.Second),
			}
		}, late: true},
		"definition": {},
		"calendar": {change: func(d *timer.Definition) {
			d.Schedule = timer.Schedule{
				Kind:      timer.KindFixedDelay,
				Every:     timer.Duration(time.Second),
				MaxFires:  2,
				Calendars: []string{"holidays"},
			}
		}, late: true},
		"pause": {gone: true, called: fires},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				parts := servicetest.New(t, servicetest.Options{})
				_, err := parts.Store.PutCalendar(t.Context(), "a", timer.Calendar{
					Name: "holidays", ExcludedDates: []string{"2001-01-01"},
				}, 0)
				require.NoError(t, err)
				defs := soon(fires, time.Second)
				for i := range defs {
					if tt.change != nil {
						tt.change(&defs[i])
					}
				}
				slow := parts.Create("a", defs...)
				st := &silent{
					Store:   parts.Store,
					kind:    kind,
					app:     "a",
					appID:   slow[0].AppID,
					timers:  make(map[timer.ID]bool),
					answers: make(chan struct{}),
				}
				for _, f := range slow {
					st.timers[f.Timer] = true
				}
				r := new(receiver)
				if tt.gone {
					r.answer = func(q *callback.Request) callback.Result {
						if q.App == "a" {
							return targetGone(q)
						}
						return callback.Result{Class: callback.Success, StatusCode: 200}
					}
				}
				start(t, parts, "one", r, func(o *executor.Options) {
					o.Store, o.MaxCalls = st, workers
				})
				if tt.late {
					time.Sleep(time.Minute)
				}
				others := parts.Create("b", soon(10, 7*time.Second)...)
				require.NoError(t, parts.Dispatch.Publish(t.Context(), slow))
				time.Sleep(time.Second)
				require.NoError(t, parts.Dispatch.Publish(t.Context(), others))
				// by now the claim has given up the definitions, and questions are asked again
				time.Sleep(6500 * time.Millisecond)
				synctest.Wait()
				calls := func() map[string]int {
					n := make(map[string]int)
					all, _ := r.seen()
					for i := range all {
						n[all[i].App]++
					}
					return n
				}
				require.Positive(t, st.asked.Load())
				require.Equal(t, 10, calls()["b"], "the other app's fires are called")
				require.Equal(t, tt.called, calls()["a"], "no answer came")
				close(st.answers)
				time.Sleep(time.Minute)
				require.GreaterOrEqual(t, calls()["a"], fires)
			})
		})
	}
}
