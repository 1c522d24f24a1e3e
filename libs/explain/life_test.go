package explain_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/explain"
	"github.com/carillon-timer/carillon/libs/schedule"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

const owner = timer.ID(245_000_000_000_001)

// life is a store with one fire.
type life struct {
	*fixture
	rec      store.FireRecord
	sessions []store.Session
}

func (l *life) Fire(context.Context, string, timer.FireID) (store.FireRecord, error) {
	return l.rec, nil
}

func (l *life) SessionsByID(context.Context, []timer.ID) ([]store.Session, error) {
	return l.sessions, nil
}

func (l *life) id() timer.FireID {
	if l.rec.Outcome != nil {
		return l.rec.Outcome.FireID
	}
	return l.rec.Open.FireID
}

func (l *life) timeline(t *testing.T) []explain.Hop {
	t.Helper()
	got, err := explain.ReadLife(t.Context(), l, app, l.id(), ms(now))
	require.NoError(t, err)
	return got.Timeline()
}

// finished returns the life of a fire that executor-1 delivered.
func finished(change func(o *timer.Outcome)) *life {
	o := outcome(due, timer.Delivered, "")
	o.Owner, o.FinishedMS, o.DurationMS, o.LatenessMS = owner, o.DueMS+20, 15, 5
	o.Hops = timer.Hops{
		Path: timer.PathSlice, DispatchedMS: o.DueMS - 2000, ClaimedMS: o.DueMS - 1900,
		WaitedFor: timer.WaitNothing,
	}
	change(&o)
	return &life{
		fixture:  newFixture(),
		rec:      store.FireRecord{Outcome: &o},
		sessions: []store.Session{{ID: owner, Name: "executor-1"}},
	}
}

func texts(hops []explain.Hop) (out []string) {
	for _, h := range hops {
		at := "?"
		if h.AtMS != 0 {
			at = duration(h.AtMS - ms(due))
		}
		out = append(out, at+" "+string(h.Code)+": "+h.Text)
	}
	return out
}

// TestTimelineOfAnAcceptance checks that the timeline says what of an acceptance was not read.
func TestTimelineOfAnAcceptance(t *testing.T) {
	t.Parallel()
	s := finished(func(*timer.Outcome) {})
	s.rec.Attempts = []timer.Attempt{{
		FireID: s.id(), N: 1, StartMS: ms(due) + 5, DurationMS: 15, StatusCode: 202,
		Error: "accepted, with a time that is none",
	}}
	require.Contains(t, texts(s.timeline(t)),
		"5ms attempt: Attempt 1 took 15ms: status 202 (accepted, with a time that is none).")
}

// TestTimelineOfAFailedCompletion checks that the timeline tells a failed completion from a call.
func TestTimelineOfAFailedCompletion(t *testing.T) {
	t.Parallel()
	for failed, text := range map[string]string{
		"completed as failed: out of paper":   "completed as failed: out of paper",
		"accepted, and not completed in time": "not completed in time",
		"":                                    "completed as failed",
	} {
		s := finished(func(*timer.Outcome) {})
		s.rec.Attempts = []timer.Attempt{
			{FireID: s.id(), N: 1, StartMS: ms(due) + 5, DurationMS: 15, StatusCode: 202},
			{
				FireID: s.id(), N: 1, StartMS: ms(due) + 3000,
				Failure: timer.FailureAsync, Error: failed,
			},
		}
		require.Contains(t, texts(s.timeline(t)),
			"3s attempt: Attempt 1 failed after it was accepted: "+text+".")
	}
}

func TestTimelineOfADeliveredFire(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{
		"? created: Created from the schedule, by version 1; when is not recorded.",
		"-2s dispatched: A trigger published its task, with the slice.",
		`-1.9s claimed: Claimed by "executor-1" (session 245000000000001).`,
		"0s due: Due.",
		"5ms attempt: Attempt 1 took 15ms: status 200.",
		"20ms recorded: Delivered at 2026-01-05T09:00:00.02Z, 5 ms late, with 1 attempt.",
	}, texts(finished(func(*timer.Outcome) {}).timeline(t)))
}

// TestLatenessBeforeTheClaim checks that a fire says for how long no executor had claimed it: waits
// begin with the claim.
func TestLatenessBeforeTheClaim(t *testing.T) {
	t.Parallel()
	l := finished(func(o *timer.Outcome) {
		o.FinishedMS, o.LatenessMS = o.DueMS+31_075, 31_060
		o.Hops.ClaimedMS, o.Hops.WaitedFor, o.Hops.WaitedMS = o.DueMS+31_036, timer.WaitWorker, 24
	})
	hops := l.timeline(t)
	require.Equal(
		t,
		`Claimed by "executor-1" (session 245000000000001), 31.036s after its run time.`,
		find(t, hops, explain.HopClaimed).Text,
	)
	require.Equal(t, "Delivered at 2026-01-05T09:00:31.075Z, 31060 ms late, with 1 attempt. "+
		"No executor had claimed it until 31.036s after its run time.",
		find(t, hops, explain.HopRecorded).Text)

	l = finished(func(o *timer.Outcome) {
		o.FinishedMS, o.LatenessMS = o.DueMS+12_115, 12_100
		o.Hops.Path = timer.PathDirect
		o.Hops.DispatchedMS, o.Hops.ClaimedMS = o.DueMS+12_050, o.DueMS+12_090
	})
	require.Contains(t, find(t, l.timeline(t), explain.HopDispatched).Text,
		"That was 12.05s after its run time.")

	l = finished(func(o *timer.Outcome) { // it waited after its claim
		o.FinishedMS, o.LatenessMS = o.DueMS+9015, 9000
		o.Hops.ClaimedMS = o.DueMS + 400
	})
	require.NotContains(t, find(t, l.timeline(t), explain.HopRecorded).Text, "No executor")

	l = finished(func(o *timer.Outcome) { // a short wait began before the claim
		o.FinishedMS, o.LatenessMS = o.DueMS+31_075, 31_060
		o.Hops.ClaimedMS, o.Hops.WaitedFor, o.Hops.WaitedMS = o.DueMS+31_036, timer.WaitStore, 60
	})
	require.Equal(t, "Delivered at 2026-01-05T09:00:31.075Z, 31060 ms late, with 1 attempt. Its "+
		"executor claimed it 31.036s after its run time; whether another one had claimed it before "+
		"is not known.", find(t, l.timeline(t), explain.HopRecorded).Text)

	for name, change := range map[string]func(l *life, o *timer.Outcome){
		"an earlier session":  func(_ *life, o *timer.Outcome) { o.Hops.Path = timer.PathOrphaned },
		"a repeated claim":    func(_ *life, o *timer.Outcome) { o.Hops.Path = timer.PathOwnClaim },
		"a wait in the store": func(_ *life, o *timer.Outcome) { o.Hops.WaitedFor, o.Hops.WaitedMS = timer.WaitBreaker, 31_000 },
		"a retry": func(l *life, o *timer.Outcome) {
			o.Attempts, o.LatenessMS = 2, 5
			l.rec.Attempts = []timer.Attempt{
				{N: 1, StartMS: ms(due) + 5, Failure: timer.FailureStatus, StatusCode: 500},
				{N: 2, StartMS: ms(due) + 31_060, StatusCode: 200},
			}
		},
	} {
		l := finished(func(o *timer.Outcome) {
			o.FinishedMS, o.LatenessMS = o.DueMS+31_075, 31_060
			o.Hops.ClaimedMS, o.Hops.DispatchedMS = o.DueMS+31_036, o.DueMS+31_030
		})
		change(l, l.rec.Outcome)
		told := join(texts(l.timeline(t)))
		require.NotContains(
			t,
			told,
			"after its run time",
			"%s: an earlier claim may have been on time",
			name,
		)
	}
}

// TestInstantsOfANeverActiveInterval checks that there are none: they count from the activation.
func TestInstantsOfANeverActiveInterval(t *testing.T) {
	t.Parallel()
	fx := newFixture()
	fx.change(func(d *timer.Definition) {
		d.Schedule = timer.Schedule{Kind: timer.KindInterval, Every: timer.Duration(time.Minute)}
	})
	fx.timer.AnchorMS, fx.timer.Status = 0, timer.StatusInactive
	require.Empty(t, fx.read(t, ms(due), ms(now), 100).Explain())
	fx.change(func(d *timer.Definition) { d.Schedule.Anchor = new(time.UnixMilli(ms(due))) })
	require.NotEmpty(t, fx.read(t, ms(due), ms(now), 100).Explain(), "they do not count from it")
	fx.change(func(d *timer.Definition) {
		d.Schedule = timer.Schedule{Kind: timer.KindCron, Specs: []string{"@every 1m"}}
	})
	require.Empty(t, fx.read(t, ms(due), ms(now), 100).Explain(), "it counts from it, too")
	got := fx.at(t, created)
	require.Equal(t, explain.NotActivated, got[0].Code)
	require.Contains(t, got[0].Text, "Its instants count from its first activation")
	require.Equal(t, []explain.Hold{
		{Code: explain.HoldInactive, Text: "The timer has never been active. Activate it."},
	}, fx.read(t, ms(due), ms(now), 100).Holds(nil))
}

// TestTimerHoldsItsFiresBack checks that the present tells what the timer itself holds back.
func TestTimerHoldsItsFiresBack(t *testing.T) {
	t.Parallel()
	fx := newFixture()
	read := func() []explain.Hold { return fx.read(t, ms(now), ms(now)+1, 1).Holds(nil) }
	require.Empty(t, read())
	fx.inactive = []timer.Inactivity{
		{FromMS: ms(due), UntilMS: ms(coming), Status: timer.StatusPaused},
	}
	require.Equal(t, []explain.Hold{{
		Code: explain.HoldPaused,
		Text: "The timer is paused from 2026-01-05T09:00:00Z until 2026-01-12T09:00:00Z; " +
			"the audit trail has by whom.",
	}}, read())
	fx.open = []timer.Fire{fire(due, timer.Fire{RunAtMS: timer.DeferredMS})}
	require.Equal(t, "The fire waits until its timer is active again. The timer is paused from "+
		"2026-01-05T09:00:00Z until 2026-01-12T09:00:00Z; the audit trail has by whom.",
		fx.at(t, due)[0].Text)
	fx.inactive[0].Status, fx.inactive[0].UntilMS = timer.StatusInactive, timer.NeverMS
	require.Equal(t, explain.HoldInactive, read()[0].Code)
	fx.deleted, fx.timer.Status = true, timer.StatusDeleted
	fx.timer.InactiveSinceMS = ms(due)
	require.Empty(t, read(), "a deleted timer has no coming fires")
	got := fx.at(t, "2026-01-10T11:00:00Z")[0]
	require.Equal(t, explain.Deleted, got.Code)
	require.NotContains(t, got.Text, "2026-01-11")
}

// TestMaxFiresBeforeAnEdit checks that an edit does not change why earlier instants have no fire.
func TestMaxFiresBeforeAnEdit(t *testing.T) {
	t.Parallel()
	fx := newFixture()
	fx.change(func(d *timer.Definition) { d.Schedule.MaxFires = 1 })
	fx.timer.FiresCreated, fx.timer.NextDueMS, fx.timer.ExpandAtMS = 1, ms(due), ms(due)
	fx.outcomes = []timer.Outcome{outcome("2026-01-02T09:00:00Z", timer.Delivered, "")}
	require.Equal(t, explain.MaxFires, fx.at(t, due)[0].Code)
	fx.edit("2026-01-07T00:00:00Z", fx.versions[0].Definition)
	fx.timer.Definition = fx.versions[0].Definition
	require.Equal(t, explain.MaxFires, fx.at(t, due)[0].Code)
	require.Equal(t, explain.MaxFires, fx.at(t, "2026-01-08T09:00:00Z")[0].Code)
}

// TestMaxFiresAreRaised checks that an edit, a pause or a deletion does not change why a timer had no
// fire before, and that a fire is still missing that was followed by another.
func TestMaxFiresAreRaised(t *testing.T) {
	t.Parallel()
	const since, next = "2026-01-07T00:00:00Z", "2026-01-06T09:00:00Z"
	raised := func(change func(fx *fixture)) *fixture {
		fx := newFixture()
		fx.change(func(d *timer.Definition) { d.Schedule.MaxFires = 1 })
		fx.outcomes = []timer.Outcome{outcome("2026-01-04T09:00:00Z", timer.Delivered, "")}
		fx.edit(since, daily("0 9 * * *"))
		fx.timer.Definition = fx.versions[1].Definition
		fx.timer.FiresCreated = 4
		change(fx)
		return fx
	}
	for name, c := range map[string]struct {
		change func(fx *fixture)
		want   explain.Code
	}{
		"an edit": {func(*fixture) {}, explain.MaxFires},
		"fires of the next version": {func(fx *fixture) {
			fx.open = []timer.Fire{fire("2026-01-07T09:00:00Z", timer.Fire{})}
			fx.outcomes = append(fx.outcomes, outcome("2026-01-08T09:00:00Z", timer.Delivered, ""))
		}, explain.MaxFires},
		"a run-now": {func(fx *fixture) {
			run := outcome(next, timer.Delivered, "")
			run.Series = 5
			fx.outcomes = append(fx.outcomes, run)
		}, explain.MaxFires},
		"a pause": {func(fx *fixture) {
			fx.versions, fx.timer.Version = fx.versions[:1], 1
			fx.inactive = []timer.Inactivity{
				{FromMS: ms(since), UntilMS: ms("2026-01-07T12:00:00Z"), Status: timer.StatusPaused},
			}
			fx.outcomes = append(fx.outcomes, outcome("2026-01-08T09:00:00Z", timer.Delivered, ""))
		}, explain.MaxFires},
		"a deletion": {func(fx *fixture) {
			fx.versions, fx.timer.Version = fx.versions[:1], 1
			fx.deleted, fx.timer.Status = true, timer.StatusDeleted
			fx.timer.InactiveSinceMS = ms(since)
		}, explain.MaxFires},
		"a later fire": {func(fx *fixture) {
			fx.outcomes = append(fx.outcomes, outcome(next, timer.Delivered, ""))
		}, explain.Missing},
		"a later open fire": {func(fx *fixture) {
			fx.open = []timer.Fire{fire(next, timer.Fire{})}
		}, explain.Missing},
		"fewer fires until now": {func(fx *fixture) { fx.timer.FiresCreated = 0 }, explain.Missing},
		"no limit": {func(fx *fixture) {
			fx.change(func(d *timer.Definition) { d.Schedule.MaxFires = 0 })
		}, explain.Missing},
	} {
		fx := raised(c.change)
		alone, of := fx.at(t, due), fx.read(t, ms(due), ms(now), 100).Explain()
		require.Equal(t, c.want, alone[0].Code, "%s: %s", name, alone[0].Text)
		require.Equal(t, c.want, of[0].Code, "%s: %s", name, of[0].Text)
	}
	require.Equal(
		t,
		"By then the timer had its 1 fire (max_fires): no later one was created until "+
			since+".",
		raised(func(*fixture) {}).at(t, due)[0].Text,
	)
}

// TestMaxFiresHoldTheTimerBack checks that the present tells when a timer has had all of its fires.
func TestMaxFiresHoldTheTimerBack(t *testing.T) {
	t.Parallel()
	fx := newFixture()
	fx.change(func(d *timer.Definition) { d.Schedule.MaxFires = 1 })
	read := func() []explain.Hold { return fx.read(t, ms(now), ms(now)+1, 1).Holds(nil) }
	require.Empty(t, read())
	fx.timer.FiresCreated, fx.timer.NextDueMS = 1, ms(due)
	require.Equal(t, []explain.Hold{{
		Code: explain.HoldMaxFires,
		Text: "The timer has had its 1 fire (max_fires). More come only if one is skipped or an " +
			"edit raises it.",
	}}, read())
	fx.timer.NextDueMS = ms(coming) + 7*24*time.Hour.Milliseconds()
	require.Empty(t, read(), "the last one is to come")
}

// TestNoMigratorCreatesFires checks that a time that has passed is not told as that of coming fires.
func TestNoMigratorCreatesFires(t *testing.T) {
	t.Parallel()
	fx := newFixture()
	fx.timer.NextDueMS, fx.timer.ExpandAtMS = ms(due), ms(due)-60_000
	got := fx.at(t, due)[0]
	require.Equal(t, explain.NotExpanded, got.Code)
	require.Equal(t, "The timer is due then. Its fire does not exist: fires were to be created at "+
		"2026-01-05T08:59:00Z, and no migrator has done so.", got.Text)
}

// TestFireOfADeadExecutor checks that no answer claims to know whether that called the fire.
func TestFireOfADeadExecutor(t *testing.T) {
	t.Parallel()
	l := finished(func(o *timer.Outcome) { o.Hops.Path = timer.PathOrphaned })
	require.Contains(t, find(t, l.timeline(t), explain.HopRecorded).Text,
		"An executor that claimed it before has ended; whether that called it is not known.")
}

// TestEveryPathAndWait checks that each path and each wait has its hop, and that unknown ones are
// said to be unknown.
func TestEveryPathAndWait(t *testing.T) {
	t.Parallel()
	for _, p := range timer.Paths() {
		hop := find(t, finished(func(o *timer.Outcome) {
			o.Hops.Path = p.Value
		}).timeline(t), explain.HopDispatched, explain.HopFound)
		require.Equal(t, p.Value, hop.Path)
		require.NotEmpty(t, hop.Text)
		require.Equal(
			t, p.Value.HasTask() || p.Value == timer.PathUnknown, hop.Code == explain.HopDispatched,
		)
		require.Equal(t, p.Value == timer.PathUnknown, hop.AtMS == 0)
	}
	for _, w := range timer.Waits() {
		hops := finished(func(o *timer.Outcome) {
			o.Hops.WaitedFor, o.Hops.WaitedMS = w.Value, 4
		}).timeline(t)
		if w.Value == timer.WaitNothing {
			require.NotContains(t, codesOf(hops), explain.HopWaited)
			continue
		}
		hop := find(t, hops, explain.HopWaited)
		require.Equal(t, w.Value, hop.Wait)
		if w.Value == timer.WaitUnknown {
			require.Contains(t, hop.Text, "not known")
			continue
		}
		require.Equal(t, "It waited 4ms "+w.Doc+" before its first attempt.", hop.Text)
		require.Equal(t, ms(due)+1, hop.AtMS, "it ended with the attempt")
	}
}

func TestTimelineSaysWhatIsUnknown(t *testing.T) {
	t.Parallel()
	retried := func(h timer.Hops) *life {
		l := finished(func(o *timer.Outcome) { o.Attempts, o.Hops = 2, h })
		l.rec.Attempts = []timer.Attempt{
			{
				N:          1,
				StartMS:    ms(due) + 5,
				DurationMS: 2,
				Failure:    timer.FailureStatus,
				StatusCode: 500,
			},
			{N: 2, StartMS: ms(due) + 9000, DurationMS: 2, StatusCode: 200},
		}
		l.rec.Outcome.FinishedMS = ms(due) + 9003
		return l
	}
	orphan := timer.Hops{Path: timer.PathOrphaned, ClaimedMS: ms(due) + 8000}
	for name, c := range map[string]struct {
		life *life
		want string
	}{
		"earlier attempt": {retried(orphan), "An earlier claim made it; whose is not recorded."},
		"earlier wait":    {retried(orphan), "not known: an earlier claim made that attempt."},
		"earlier wait's length": {
			retried(timer.Hops{ClaimedMS: ms(due) + 8000, WaitedFor: timer.WaitLimits}),
			"for the limits of its app before its first attempt, under an earlier claim; how long is not recorded.",
		},
		"answer": {retried(orphan), "Attempt 1 took 2ms and failed: status, status 500."},
		"path": {finished(func(o *timer.Outcome) {
			o.Hops = timer.Hops{}
		}), "What brought it to its executor is not known."},
		"claim": {finished(func(o *timer.Outcome) {
			o.Hops.ClaimedMS, o.Hops.DispatchedMS = 0, 0
		}), `Claimed by "executor-1" (session 245000000000001); when is not recorded.`},
		"task": {finished(func(o *timer.Outcome) {
			o.Hops.DispatchedMS = 0
		}), "When is not recorded."},
		"long wait": {finished(func(o *timer.Outcome) {
			o.Hops.WaitedFor, o.Hops.WaitedMS = timer.WaitLimits, store.MaxWaitedMS
		}), "4h39m37.215s or longer for the limits"},
		"newer path": {finished(func(o *timer.Outcome) { o.Hops.Path = 200 }), "is not known."},
		"newer wait": {finished(func(o *timer.Outcome) {
			o.Hops.WaitedFor, o.Hops.WaitedMS = 200, 5
		}), "for what a newer release calls 200"},
		"completed": {finished(func(o *timer.Outcome) {
			o.Owner, o.Hops = store.SystemSession, timer.Hops{}
		}), "Which one is not kept"},
	} {
		require.Contains(t, join(texts(c.life.timeline(t))), c.want, name)
	}
	nameless := finished(func(*timer.Outcome) {})
	nameless.sessions = nil
	require.Contains(t, join(texts(nameless.timeline(t))), "whose name is no longer kept")
	stretch := finished(func(o *timer.Outcome) {
		o.Kind, o.Reason, o.Owner = timer.Skipped, timer.ReasonMisfired, store.SystemSession
		o.Attempts, o.Count, o.UntilMS, o.Hops = 0, 3, ms(now), timer.Hops{}
	})
	require.Equal(t, []explain.HopCode{explain.HopCreated, explain.HopDue, explain.HopRecorded},
		codesOf(stretch.timeline(t)), "nobody claimed it")
}

func TestTimelineOfOpenFires(t *testing.T) {
	t.Parallel()
	open := func(f timer.Fire, s ...store.Session) string {
		f = fire(due, f)
		return join(texts((&life{newFixture(), store.FireRecord{Open: &f}, s}).timeline(t)))
	}
	require.Contains(t, open(timer.Fire{
		State: timer.FireDeferred, WaitedFor: timer.WaitBreaker, WaitingSinceMS: ms(due) + 1000,
		RunAtMS: ms(now) + 5000,
	}), "1s waiting: The breaker of the endpoint was open, and the fire waits since "+
		"2026-01-05T09:00:01Z; it is asked again at 2026-01-10T12:00:05Z.")
	claimed := timer.Fire{Owner: owner}
	require.Contains(t, open(claimed, store.Session{ID: owner, Name: "executor-1"}),
		`Claimed by "executor-1" (session 245000000000001). When, and by which path, only`)
	require.Contains(t, open(claimed, store.Session{ID: owner, Name: "executor-1", Ended: true}),
		"That session has ended, so another executor will claim the fire.")
	require.Contains(t, open(claimed), "That session has ended")
	require.Contains(t, open(claimed, store.Session{ID: owner, Name: "executor-1"}),
		"or its result is not recorded yet")
	require.Contains(t, open(claimed), "should have been called at 2026-01-05T09:00:00Z")
	request := timer.Fire{FireID: timer.FireID{Series: int64(owner)}, Cause: timer.CauseRedrive}
	require.Contains(t, open(request), "requested: Requested by a redrive.")
}

// TestTimelineTellsFromWhenOnItWasToBeCalled checks that a later run time is told from the timer's
// jitter or activation, and not from a call that began late.
func TestTimelineTellsFromWhenOnItWasToBeCalled(t *testing.T) {
	t.Parallel()
	told := func(change func(l *life, d *timer.Definition)) string {
		l := finished(func(o *timer.Outcome) {
			o.FinishedMS, o.LatenessMS, o.DurationMS = o.DueMS+3000, 2, 10
		})
		change(l, &l.versions[0].Definition)
		return find(t, l.timeline(t), explain.HopDue).Text
	}
	require.Equal(t, "Due.", told(func(*life, *timer.Definition) {}))
	jitter := timer.Duration(time.Hour)
	planned := ms(due) + schedule.Jitter(id, ms(due), jitter)
	require.Equal(t, "Due; to be called from "+time.UnixMilli(planned).UTC().
		Format("2006-01-02T15:04:05.999Z07:00")+" on, because of the jitter.",
		told(func(_ *life, d *timer.Definition) { d.Schedule.Jitter = jitter }))
	require.Equal(
		t,
		"Due; to be called from 2026-01-06T00:00:00Z on, because of a later activation.",
		told(func(l *life, d *timer.Definition) {
			at := time.UnixMilli(ms(due))
			d.Schedule = timer.Schedule{Kind: timer.KindAt, At: &at}
			l.inactive = []timer.Inactivity{
				{
					FromMS: ms(
						created,
					),
					UntilMS: ms("2026-01-06T00:00:00Z"),
					Status:  timer.StatusPaused,
				},
			}
		}),
	)
}

// TestTimelineOfAnInterruptedCall checks that a call that was cancelled is told as begun.
func TestTimelineOfAnInterruptedCall(t *testing.T) {
	t.Parallel()
	l := finished(func(o *timer.Outcome) {
		o.Kind, o.Reason, o.FinishedMS = timer.Skipped, timer.ReasonCancelled, o.DueMS+3000
		o.Cause = timer.CauseBackfill
	})
	l.rec.Attempts = []timer.Attempt{
		{N: 1, StartMS: ms(due), DurationMS: 3000, Failure: timer.FailureCanceled},
	}
	require.Equal(t, "Called: attempt 1 began at 2026-01-05T09:00:00Z and was given up at "+
		"2026-01-05T09:00:03Z, because a later fire of the timer replaced it.",
		find(t, l.timeline(t), explain.HopRecorded).Text)
}

// TestFiresOfRequestsSaySo checks that a redrive is not taken for the fire of the schedule.
func TestFiresOfRequestsSaySo(t *testing.T) {
	t.Parallel()
	fx := newFixture()
	fx.outcomes = []timer.Outcome{outcome(due, timer.Failed, timer.ReasonExhausted)}
	again := outcome(due, timer.Delivered, "")
	again.Series, again.Cause = int64(owner), timer.CauseRedrive
	fx.outcomes = append(fx.outcomes, again)
	var got []string
	for _, a := range fx.at(t, due) {
		got = append(got, a.Text)
	}
	require.Len(t, got, 2)
	require.Regexp(t, `^Failed at `, got[0])
	require.Regexp(t, `^Requested by a redrive at 20\S+Z\. Delivered at `, got[1])
}

func TestHoldsSayWhatIsKnown(t *testing.T) {
	t.Parallel()
	quiet := &holds{sessions: []store.Session{{Kind: store.ExecutorSession}}}
	require.Empty(t, quiet.codes(t), "no fire waits for anything")
	quiet.open = []timer.Fire{{}}
	require.Equal(t, []explain.HoldCode{explain.HoldBreakerUnknown}, quiet.codes(t))
	busy := &holds{
		app: store.App{
			Frozen: true, FrozenMS: ms(due), Reason: "audit",
			Settings: store.AppSettings{Rate: 2.5, Concurrent: 4},
		},
		sessions: []store.Session{
			{Kind: store.ExecutorSession, Load: store.Load{OldestTaskMS: 9000}},
			{Kind: store.SchedulerSession},
		},
		oldest: ms(now) - 60_000,
	}
	for i, w := range []timer.Wait{timer.WaitLimits, timer.WaitLimits, timer.WaitBreaker, timer.WaitTurn} {
		busy.open = append(busy.open, timer.Fire{
			State: timer.FireWaiting, WaitedFor: w, WaitingSinceMS: ms(due) + int64(i),
		})
	}
	require.Equal(t, []explain.HoldCode{
		explain.HoldFrozen,
		explain.HoldLimited,
		explain.HoldWaitsForLimits,
		explain.HoldBreakerOpen,
		explain.HoldTurn,
		explain.HoldBehind,
		explain.HoldBacklog,
	}, busy.codes(t))
	require.Equal(t, []string{
		"The app is frozen since 2026-01-05T09:00:00Z (audit); the audit trail has by whom.",
		"The app may have at most 2.5 calls a second and 4 calls at once; only executors know how much of that is used.",
		"Of the timer 2 fires wait for the limits of its app, the first since 2026-01-05T09:00:00Z.",
		"Of the timer 1 fire waits for the breaker of its endpoint, the first since 2026-01-05T09:00:00.002Z.",
		"Of the timer 1 fire waits for an earlier fire of its timer to finish, the first since 2026-01-05T09:00:00.003Z.",
		"Tasks wait up to 9s until executors claim them.",
		"The oldest open fire of all apps is 1m0s past its run time.",
	}, busy.texts(t))
	busy.sessions[0].Load.InflightFull, busy.more = true, true
	require.Contains(t, join(busy.texts(t)), "Of 1 executor alive, 1 has no room for more fires.")
	require.Contains(t, join(busy.texts(t)), "at least 2 fires")
	busy.app.Settings = store.AppSettings{Rate: 1, Concurrent: 1}
	require.Contains(t, join(busy.texts(t)), "at most 1 call a second and 1 call at once;")
	busy.sessions, busy.open = nil, nil
	require.Contains(t, busy.codes(t), explain.HoldNoExecutor)
	require.Contains(t, join(busy.texts(t)), "too many open fires to search them all")
	require.Len(t, explain.HoldMeanings(), 14)
}

// TestHoldsCountWhatWaits checks that a fire whose turn has come does not wait for it, that fires
// in an executor's memory are not counted, and that only a due fire may wait for a breaker.
func TestHoldsCountWhatWaits(t *testing.T) {
	t.Parallel()
	h := &holds{sessions: []store.Session{{ID: 9, Kind: store.ExecutorSession}}}
	turn := timer.Fire{
		State: timer.FireWaiting, WaitedFor: timer.WaitTurn, WaitingSinceMS: ms(due),
		RunAtMS: ms(now) + 5000,
	}
	called := turn
	called.State, called.Owner, called.RunAtMS = timer.FireReady, 9, ms(now)
	h.open = []timer.Fire{called, turn, turn}
	require.Contains(t, join(h.texts(t)), "Of the timer 2 fires wait for an earlier fire")
	h.open = []timer.Fire{
		{State: timer.FireAccepted},
		{State: timer.FireRetrying, Attempt: 1, RunAtMS: ms(now) + 5000},
	}
	require.Empty(t, h.codes(t))
	h.open = []timer.Fire{{Owner: 9}}
	require.Contains(t, join(h.texts(t)), "No fire of the timer is known to wait for the breaker")
	h.open = append(h.open, timer.Fire{
		State: timer.FireDeferred, WaitedFor: timer.WaitBreaker, WaitingSinceMS: ms(due),
		RunAtMS: ms(now) + 5000,
	})
	require.Contains(t, join(h.texts(t)), "Of the timer at least 1 fire waits for the breaker")
}

// TestOpenFiresOfAFrozenApp checks that each open fire says so that a freeze would skip.
func TestOpenFiresOfAFrozenApp(t *testing.T) {
	t.Parallel()
	const frozen = "The app is frozen: if it stays so, the fire is not called"
	later := ms(now) + 5000
	for name, tt := range map[string]struct {
		fire timer.Fire
		want bool
	}{
		"retry":     {timer.Fire{State: timer.FireRetrying, Attempt: 1, RunAtMS: later}, true},
		"jittered":  {timer.Fire{RunAtMS: later}, true},
		"accepted":  {timer.Fire{State: timer.FireAccepted, Attempt: 1, RunAtMS: later}, false},
		"called":    {timer.Fire{Owner: 9}, false},
		"activated": {timer.Fire{RunAtMS: timer.DeferredMS}, false},
		"run-now":   {timer.Fire{FireID: timer.FireID{Series: 3}, Cause: timer.CauseRunNow}, false},
		"redrive":   {timer.Fire{FireID: timer.FireID{Series: 3}, Cause: timer.CauseRedrive}, true},
	} {
		fx := newFixture()
		fx.frozen, fx.open = true, []timer.Fire{fire(due, tt.fire)}
		for _, a := range fx.at(t, due) {
			if a.Open != nil {
				require.Equal(t, tt.want, a.Frozen, name)
				require.Equal(t, tt.want, strings.Contains(a.Text, frozen), name)
			}
		}
	}
	fx := newFixture()
	fx.frozen = true
	for _, a := range fx.at(t, "2026-01-20T09:00:00Z") {
		require.Equal(t, a.Frozen, strings.Contains(a.Text, frozen))
	}
}

// TestPauseHoldsARetry checks that a fire whose retry comes during a pause waits for the activation,
// and that a fire of a request does not.
func TestPauseHoldsARetry(t *testing.T) {
	t.Parallel()
	fx := newFixture()
	fx.timer.Status, fx.timer.InactiveSinceMS = timer.StatusPaused, ms(due)+10
	fx.inactive = []timer.Inactivity{
		{FromMS: ms(due) + 10, UntilMS: timer.NeverMS, Status: timer.StatusPaused},
	}
	retry := timer.Fire{State: timer.FireRetrying, Attempt: 1, RunAtMS: ms(now) + 5000}
	fx.open = []timer.Fire{fire(due, retry)}
	got := fx.at(t, due)[0]
	require.Equal(t, explain.WaitsForActive, got.Code)
	require.Contains(
		t,
		got.Text,
		"1 attempt has failed; the next one waits until the timer is active",
	)
	facts := fx.read(t, ms(due), ms(due)+1, 1)
	require.Len(t, facts.Holds(facts.Explain()), 1)
	// Jitter delays the first attempt into the pause.
	jittered := fire(due, timer.Fire{RunAtMS: ms(now) + 5000})
	facts.State.ActiveSinceMS = ms(due)
	require.Equal(t, explain.WaitsForActive,
		explain.OpenCode(&jittered, nil, &facts.State, ms(now)))
	facts.State.ActiveSinceMS = ms(due) + 1
	require.Equal(t, explain.Planned,
		explain.OpenCode(&jittered, nil, &facts.State, ms(now)), "it may be skipped")
	retry.Series = 3
	request := fire(due, retry)
	require.Equal(t, explain.WaitsForRetry,
		explain.OpenCode(&request, nil, &facts.State, ms(now)))
}

// TestOpenRequestIsExplainedAtItsInstant checks that the answer has an open run-now, which its
// timer does not hold back.
func TestOpenRequestIsExplainedAtItsInstant(t *testing.T) {
	t.Parallel()
	fx := newFixture()
	fx.timer.AnchorMS, fx.timer.Status = 0, timer.StatusInactive
	const at = "2026-01-10T11:59:59Z"
	run := timer.Fire{FireID: timer.FireID{Series: 3}, Cause: timer.CauseRunNow}
	fx.open = []timer.Fire{fire(at, run)}
	facts := fx.read(t, ms(at), ms(at)+1, 1)
	got := facts.Explain()
	require.Len(t, got, 1)
	require.Equal(t, explain.Overdue, got[0].Code)
	require.Empty(t, facts.Holds(got))
}
