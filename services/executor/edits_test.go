package executor_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
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

// TestFireIsCalledByVersionInForce checks that edits which keep the due times leave open fires
// alone. Each fire is called by the version in effect when it was due. It covers fires claimed
// before the edits, called late after them, and an edit of the schedule in between.
func TestFireIsCalledByVersionInForce(t *testing.T) {
	t.Parallel()
	for _, late := range []bool{false, true} {
		t.Run(fmt.Sprint("late ", late), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				parts := servicetest.New(t, servicetest.Options{})
				definition := func(spec string, n int) timer.Definition {
					d := servicetest.Cron(spec, fmt.Sprint("http://127.0.0.1/", n))
					d.Labels = map[string]string{"n": fmt.Sprint(n)}
					d.Misfire = timer.Misfire{Policy: timer.MisfireFireAll}
					d.Retry = timer.Retry{
						Attempts: 2,
						Wait:     timer.Duration(3 * time.Second),
						Factor:   1,
						Timeout:  timer.Duration(time.Second),
					}
					return d
				}
				fires := parts.Create("a", definition("* * * * * *", 1))[:40]
				failed := map[timer.FireID]bool{}
				r := new(receiver)
				r.answer = func(q *callback.Request) callback.Result {
					r.mu.Lock()
					defer r.mu.Unlock()
					// Its other attempt comes after an edit.
					if q.Fire == fires[10].FireID && !failed[q.Fire] {
						failed[q.Fire] = true
						return callback.Result{
							Class:      callback.Retry,
							Failure:    timer.FailureStatus,
							StatusCode: 500,
						}
					}
					return callback.Result{Class: callback.Success, StatusCode: 200}
				}
				start(t, parts, "one", r, nil)
				start(t, parts, "two", r, nil)
				if !late {
					// All are claimed before the edits.
					require.NoError(t, parts.Dispatch.Publish(t.Context(), fires))
				}
				for i, d := range []timer.Definition{definition("* * * * * *", 2), definition("* * * * * *", 3), definition("*/5 * * * * *", 4), definition("*/5 * * * * *", 5)} {
					at := []int{10, 20, 30, 30}[i]
					time.Sleep(time.Until(time.UnixMilli(fires[at].DueMS + 500)))
					made, err := parts.Store.Edit(
						t.Context(),
						[]store.Edit{{App: "a", ID: fires[0].Timer, Definition: d}},
						parts.Plan,
					)
					require.NoError(t, err)
					require.NoError(t, made[0].Err)
					if i < 2 {
						require.Empty(t, made[0].Fires)
					}
				}
				if late {
					require.NoError(t, parts.Dispatch.Publish(t.Context(), fires))
				}
				time.Sleep(30 * time.Second)

				calls, _ := r.seen()
				seen := map[timer.FireID]string{}
				for _, c := range calls {
					n := c.Labels["n"]
					require.Equal(t, "http://127.0.0.1/"+n, c.Target.URL)
					require.Contains(
						t,
						[]string{"", n},
						seen[c.Fire],
						"both attempts of %s use one version",
						c.Fire,
					)
					seen[c.Fire] = n
				}
				for i, f := range fires {
					rec, err := parts.Store.Fire(t.Context(), "a", f.FireID)
					require.NoError(t, err)
					require.NotNil(t, rec.Outcome)
					if i > 30 && f.DueMS%5000 != 0 {
						require.Contains(
							t,
							[]timer.Reason{timer.ReasonSuperseded, timer.ReasonNone},
							rec.Outcome.Reason,
						)
						require.True(
							t,
							rec.Outcome.Reason == timer.ReasonSuperseded || i == 31,
							"fire %d: %v",
							i,
							rec.Outcome,
						)
						continue
					}
					want := []int{1, 2, 3, 5}[max(0, (i-1)/10)]
					require.Equal(t, timer.Delivered, rec.Outcome.Kind, "fire %d", i)
					require.Equal(
						t,
						seen[f.FireID],
						fmt.Sprint(rec.Outcome.Version),
						"the outcome has the version of the call",
					)
					if i%10 != 1 || late { // within a second of an edit either version is allowed
						require.EqualValues(t, want, rec.Outcome.Version, "fire %d", i)
					}
				}
			})
		})
	}
}

// TestGoneOfAnEarlierVersionPausesNothing moves a timer to a new endpoint while fires of the old one
// are retried. The old one then answers 410.
func TestGoneOfAnEarlierVersionPausesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		definition := func(url string) timer.Definition {
			d := servicetest.Cron("* * * * * *", url)
			d.Retry = timer.Retry{
				Attempts: 5,
				Wait:     timer.Duration(4 * time.Second),
				MaxWait:  timer.Duration(4 * time.Second),
				Factor:   1,
				Timeout:  timer.Duration(time.Second),
			}
			return d
		}
		fires := parts.Create("a", definition("http://127.0.0.1/old"))[:20]
		r := new(receiver)
		r.answer = func(q *callback.Request) callback.Result {
			switch {
			case q.Target.URL == "http://127.0.0.1/new":
				return callback.Result{Class: callback.Success, StatusCode: 200}
			case q.Attempt == 1:
				return callback.Result{
					Class: callback.Retry, StatusCode: 503, Failure: timer.FailureStatus,
				}
			}
			return targetGone(q)
		}
		start(t, parts, "one", r, nil)
		require.NoError(t, parts.Dispatch.Publish(t.Context(), fires))
		time.Sleep(time.Until(time.UnixMilli(fires[2].DueMS + 500)))
		made, err := parts.Store.Edit(t.Context(), []store.Edit{
			{App: "a", ID: fires[0].Timer, Definition: definition("http://127.0.0.1/new")},
		}, parts.Plan)
		require.NoError(t, err)
		require.NoError(t, made[0].Err)
		time.Sleep(time.Minute)

		got, err := parts.Store.Timer(t.Context(), "a", fires[0].Timer)
		require.NoError(t, err)
		require.Equal(t, timer.StatusActive, got.Status)
		count := reasons(t, parts, fires)
		require.Equal(t, len(fires), count["delivered"]+count["failed:gone"])
		require.Positive(t, count["failed:gone"])
	})
}

// TestTasksOfALostDeployment publishes tasks that name a version which the restored database does not
// have, as the lost deployment made them after the backup. Their fires are called as the rows say.
func TestTasksOfALostDeployment(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		fires := parts.Create("a", servicetest.Cron("* * * * * *", "http://127.0.0.1/"))[:10]
		lost := slices.Clone(fires)
		for i := range lost {
			lost[i].Version += int32(1 + i%2)
			lost[i].RunAtMS += int64(i-5) * 200 // the other version had another jitter
		}
		r := new(receiver)
		start(t, parts, "one", r, nil)
		require.NoError(t, parts.Dispatch.Publish(t.Context(), lost))
		time.Sleep(time.Until(time.UnixMilli(fires[9].RunAtMS)) + 10*time.Second)

		calls, at := r.seen()
		require.Len(t, calls, len(fires))
		began := make(map[timer.FireID]int64)
		for i, c := range calls {
			began[c.Fire] = at[i].UnixMilli()
		}
		for _, f := range fires {
			require.GreaterOrEqual(t, began[f.FireID], f.RunAtMS, "early")
			rec, err := parts.Store.Fire(t.Context(), "a", f.FireID)
			require.NoError(t, err)
			require.NotNil(t, rec.Outcome)
			require.Equal(t, timer.Delivered, rec.Outcome.Kind)
			require.Equal(t, f.Version, rec.Outcome.Version)
		}
	})
}

// withoutDefinitions is a store that has lost all definitions.
type withoutDefinitions struct{ executor.Store }

func (withoutDefinitions) Definitions(
	context.Context, []store.VersionKey,
) (map[store.VersionKey]*timer.Definition, error) {
	return nil, nil //nolint:nilnil // it has none
}

// TestFireWithoutDefinitionIsRejected reads the row before it gives a fire up.
func TestFireWithoutDefinitionIsRejected(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		f := parts.Create("a", servicetest.Cron("* * * * * *", "http://127.0.0.1/"))[0]
		r := new(receiver)
		start(t, parts, "one", r, func(o *executor.Options) {
			o.Store = withoutDefinitions{o.Store}
		})
		require.NoError(t, parts.Dispatch.Publish(t.Context(), []timer.Fire{f}))
		time.Sleep(time.Until(time.UnixMilli(f.RunAtMS)) + 10*time.Second)

		calls, _ := r.seen()
		require.Empty(t, calls)
		rec, err := parts.Store.Fire(t.Context(), "a", f.FireID)
		require.NoError(t, err)
		require.NotNil(t, rec.Outcome)
		require.Equal(t, timer.ReasonRejected, rec.Outcome.Reason)
	})
}

// refusing is a store that refuses each superseded outcome once, as if the row had just moved.
type refusing struct {
	executor.Store

	mu      sync.Mutex
	refused map[timer.FireID]bool
}

func (r *refusing) Record(
	ctx context.Context,
	id timer.ID,
	outcomes []timer.Outcome,
	attempts []timer.Attempt,
) ([]timer.FireID, []timer.Fire, error) {
	var refused []timer.FireID
	r.mu.Lock()
	outcomes = slices.DeleteFunc(outcomes, func(o timer.Outcome) bool {
		if o.Reason != timer.ReasonSuperseded || r.refused[o.FireID] {
			return false
		}
		r.refused[o.FireID] = true
		refused = append(refused, o.FireID)
		return true
	})
	r.mu.Unlock()
	lost, created, err := r.Store.Record(ctx, id, outcomes, attempts)
	return append(lost, refused...), created, err
}

// TestRefusedSupersededFiresAreDecidedAgain checks that a fire is decided again soon whose outcome
// "superseded" the store has refused.
func TestRefusedSupersededFiresAreDecidedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		fires := parts.Create("a", servicetest.Cron("* * * * * *", "http://127.0.0.1/"))[:20]
		st := &refusing{Store: parts.Store, refused: make(map[timer.FireID]bool)}
		start(t, parts, "one", new(receiver), func(o *executor.Options) { o.Store = st })
		require.NoError(t, parts.Dispatch.Publish(t.Context(), fires))
		made, err := parts.Store.Edit(t.Context(), []store.Edit{{
			App: "a", ID: fires[0].Timer,
			Definition: servicetest.Cron("*/5 * * * * *", "http://127.0.0.1/"),
		}}, parts.Plan)
		require.NoError(t, err)
		require.NoError(t, made[0].Err)
		continueReplans(t, parts)
		time.Sleep(time.Until(time.UnixMilli(fires[19].DueMS)) + 5*time.Second)
		for _, o := range hops(t, parts, fires) {
			require.Less(t, o.FinishedMS-o.DueMS, int64(2000))
		}
		st.mu.Lock()
		defer st.mu.Unlock()
		require.Greater(t, len(st.refused), 10)
	})
}

// continueReplans does what migrators do after an edit.
func continueReplans(t *testing.T, parts *servicetest.Parts) {
	t.Helper()
	for more := true; more; {
		var fires []timer.Fire
		var err error
		fires, more, err = parts.Store.ContinueReplans(t.Context(), parts.Plan)
		require.NoError(t, err)
		parts.Dispatch.Committed(t.Context(), fires)
	}
}

// TestFollowUpBehind edits a timer while no migrator runs. Fires that the new version has are on
// time, by the new version. The others wait for the follow-up, and are superseded then.
func TestFollowUpBehind(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parts := servicetest.New(t, servicetest.Options{})
		fires := parts.Create("a", servicetest.Cron("* * * * * *", "http://127.0.0.1/old"))[:60]
		r := &receiver{}
		start(t, parts, "one", r, nil)
		start(t, parts, "two", r, nil)
		require.NoError(t, parts.Dispatch.Publish(t.Context(), fires))
		time.Sleep(time.Until(time.UnixMilli(fires[10].DueMS)) + 500*time.Millisecond)
		made, err := parts.Store.Edit(t.Context(), []store.Edit{{
			App:        "a",
			ID:         fires[0].Timer,
			Definition: servicetest.Cron("*/5 * * * * *", "http://127.0.0.1/new"),
		}}, parts.Plan)
		require.NoError(t, err)
		require.NoError(t, made[0].Err)
		next := made[0].Timer.NextDueMS
		require.Less(t, next, fires[40].DueMS)
		time.Sleep(time.Until(time.UnixMilli(fires[50].DueMS)) + 500*time.Millisecond)
		waiting := 0
		for i, f := range fires[:51] {
			rec, err := parts.Store.Fire(t.Context(), "a", f.FireID)
			require.NoError(t, err)
			switch {
			case i <= 10:
				require.Equal(t, timer.Delivered, rec.Outcome.Kind)
			case f.DueMS%5000 == 0:
				require.NotNil(t, rec.Outcome, "fire %d", i)
				require.Equal(t, timer.Delivered, rec.Outcome.Kind)
				require.EqualValues(t, 2, rec.Outcome.Version)
				require.Less(t, rec.Outcome.LatenessMS, int64(400))
			case f.DueMS < next:
				require.Contains(
					t,
					[]timer.Reason{timer.ReasonSuperseded, timer.ReasonNone},
					rec.Outcome.Reason,
				)
			default:
				require.NotNil(t, rec.Open, "fire %d waits", i)
				waiting++
			}
		}
		require.Positive(t, waiting)
		continueReplans(t, parts)
		time.Sleep(5 * time.Second)
		for i, f := range fires[12:51] {
			rec, err := parts.Store.Fire(t.Context(), "a", f.FireID)
			require.NoError(t, err)
			require.NotNil(t, rec.Outcome, "fire %d", i)
			require.Equal(
				t,
				f.DueMS%5000 != 0,
				rec.Outcome.Reason == timer.ReasonSuperseded,
				"fire %d: %v",
				i,
				rec.Outcome,
			)
		}
		calls, _ := r.seen()
		seen := map[timer.FireID]bool{}
		for _, c := range calls {
			require.False(t, seen[c.Fire], "called once")
			seen[c.Fire] = true
		}
	})
}
