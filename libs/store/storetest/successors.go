package storetest

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// delayed creates an active timer with a fixed delay. Its first fire is past and claimed.
func (s *setup) delayed(session timer.ID, maxFires int64) (timer.Timer, timer.Fire) {
	s.t.Helper()
	item := s.newTimer()
	item.Activate = true
	item.Definition.Schedule = timer.Schedule{
		Kind:     timer.KindFixedDelay,
		Every:    timer.Duration(time.Minute),
		MaxFires: maxFires,
	}
	made := s.create(item, planAt(0, s.nowMS()-time.Minute.Milliseconds()))
	won := s.claim(session, made.Fires)
	require.Len(s.t, won, 1)
	return made.Timer, won[0]
}

// withSuccessor is the delivery of a fire whose successor is due in a minute.
func (s *setup) withSuccessor(f timer.Fire) timer.Outcome {
	s.t.Helper()
	now := s.nowMS()
	o := delivered(f, now)
	o.Next = &timer.Fire{
		FireID: timer.FireID{
			Timer: f.Timer,
			DueMS: now + timer.MinuteMS,
		},
		RunAtMS: now + timer.MinuteMS,
		AppID:   f.AppID,
		Version: f.Version,
		Epoch:   f.Epoch,
	}
	return o
}

func (s *setup) record(session timer.ID, o timer.Outcome) (lost []timer.FireID, made []timer.Fire) {
	s.t.Helper()
	lost, made, err := s.st().Record(s.t.Context(), session, []timer.Outcome{o}, nil)
	require.NoError(s.t, err)
	return lost, made
}

func delaysContinue(t *testing.T, s *setup) {
	ctx := t.Context()
	session := s.session()
	tm, first := s.delayed(session, 2)
	o := s.withSuccessor(first)
	lost, made := s.record(session, o)
	require.Empty(t, lost)
	require.Len(t, made, 1)
	require.Equal(t, o.Next.FireID, made[0].FireID)
	rec, err := s.st().Fire(ctx, "app", made[0].FireID)
	require.NoError(t, err)
	require.Equal(t, made[0], *rec.Open)
	got, err := s.st().Timer(ctx, "app", tm.ID)
	require.NoError(t, err)
	require.EqualValues(t, 2, got.FiresCreated)
	_, again := s.record(session, o)
	require.Equal(t, made, again, "returned again, and not created again")
	got, err = s.st().Timer(ctx, "app", tm.ID)
	require.NoError(t, err)
	require.EqualValues(t, 2, got.FiresCreated)

	// An edit that keeps the schedule leaves the open fire. The chain continues in the new version.
	d := tm.Definition
	d.Target.URL = "http://b"
	s.edit(tm, d, noFires)
	rec, err = s.st().Fire(ctx, "app", made[0].FireID)
	require.NoError(t, err)
	require.EqualValues(t, 2, s.asCalled([]timer.Fire{*rec.Open})[0].Version)
	won := s.claim(session, []timer.Fire{*rec.Open})
	_, none := s.record(session, s.withSuccessor(won[0]))
	require.Empty(t, none, "max_fires is reached")

	// The same holds for the first fire, which the planner does not plan again.
	item := s.newTimer()
	item.Activate = true
	item.Definition.Schedule = timer.Schedule{
		Kind:  timer.KindFixedDelay,
		Every: timer.Duration(time.Minute),
	}
	fresh := s.create(item, planAt(0, s.nowMS()+timer.MinuteMS))
	d = fresh.Timer.Definition
	d.Target.URL = "http://b"
	s.edit(fresh.Timer, d, noFires)
	rec, err = s.st().Fire(ctx, "app", fresh.Fires[0].FireID)
	require.NoError(t, err)
	require.EqualValues(t, 2, s.asCalled([]timer.Fire{*rec.Open})[0].Version)

	for name, change := range map[string]func(tm timer.Timer){
		"inactive": func(tm timer.Timer) { s.setStatus(tm, timer.StatusInactive, noFires) },
		"epoch":    func(tm timer.Timer) { s.replan(tm, noFires) },
		"schedule": func(tm timer.Timer) {
			d := tm.Definition
			d.Schedule.Every = timer.Duration(time.Hour)
			s.edit(tm, d, noFires)
		},
	} {
		tm, first := s.delayed(session, 0)
		o := s.withSuccessor(first)
		change(tm)
		lost, made := s.record(session, o)
		require.Empty(t, lost, name)
		require.Empty(t, made, name)
		got, err := s.st().Timer(ctx, "app", tm.ID)
		require.NoError(t, err)
		require.EqualValues(t, 1, got.FiresCreated, name)
	}

	// The timer is edited during the call, except for its schedule. The successor is created all
	// the same.
	tm, first = s.delayed(session, 0)
	o = s.withSuccessor(first)
	d = tm.Definition
	d.Target.URL = "http://b"
	s.edit(tm, d, noFires)
	_, made = s.record(session, o)
	require.Len(t, made, 1)
	require.EqualValues(t, 2, made[0].Version)
}

// chainsContinueWithFiresThatWereLeft checks that a chain goes on with a fire that an edit or an
// activation has left open, if it comes to the instant of that fire.
func chainsContinueWithFiresThatWereLeft(t *testing.T, s *setup) {
	session := s.session()
	for _, edit := range []bool{true, false} {
		for _, owned := range []bool{true, false} {
			item := s.newTimer()
			item.Activate = true
			item.Definition.Schedule = timer.Schedule{
				Kind: timer.KindFixedDelay, Every: timer.Duration(time.Minute),
			}
			due := s.nowMS() + 2*timer.MinuteMS
			made := s.create(item, planAt(0, due))
			if owned {
				require.Len(t, s.claim(session, made.Fires), 1)
			}
			var first []timer.Fire
			if plan := planAt(0, due-timer.MinuteMS); edit {
				d := made.Timer.Definition
				d.Schedule.Every = timer.Duration(2 * time.Minute)
				first = s.edit(made.Timer, d, plan).Fires
			} else {
				s.pause(made.Timer, "", 0, noFires)
				first = s.setStatus(made.Timer, timer.StatusActive, plan).Fires
			}
			before := s.timer(made.Timer.ID)
			won := s.claim(session, first)
			require.Len(t, won, 1)
			o := s.withSuccessor(won[0])
			o.Next.DueMS, o.Next.RunAtMS = due, due+1000
			lost, started := s.record(session, o)
			require.Empty(t, lost)

			rec, err := s.st().Fire(t.Context(), "app", made.Fires[0].FireID)
			require.NoError(t, err)
			require.NotNil(t, rec.Open)
			require.Equal(t, before.Version, rec.Open.Version)
			require.Equal(t, before.ActiveEpoch, rec.Open.Epoch)
			after := s.timer(made.Timer.ID)
			if edit {
				before.FiresCreated++ // the edit has taken it back
			}
			require.Equal(t, before.FiresCreated, after.FiresCreated)
			require.Equal(t, due, after.LastDueMS)
			if owned {
				require.Empty(t, started)
				require.Equal(t, session, rec.Open.Owner)
				require.Equal(t, due, rec.Open.RunAtMS)
				continue
			}
			require.Equal(t, []timer.Fire{*rec.Open}, started)
			require.Equal(t, due+1000, rec.Open.RunAtMS)
			require.Equal(t, made.Fires[0].Rev+1, rec.Open.Rev)
		}
	}
}

// chainsOpenFiresAgain checks that a fire which an activation has ended before it is due has one
// outcome, if the new chain comes to its instant: also after an edit without max_fires, and if the
// chain goes on by a completion.
func chainsOpenFiresAgain(t *testing.T, s *setup) {
	session := s.session()
	for _, edited := range []bool{false, true} {
		for _, completed := range []bool{false, true} {
			item := s.newTimer()
			item.Activate = true
			item.Definition.Schedule = timer.Schedule{
				Kind: timer.KindFixedDelay, Every: timer.Duration(time.Minute), MaxFires: 3,
			}
			due := s.nowMS() + 2*timer.MinuteMS
			made := s.create(item, planAt(0, due))
			s.pause(made.Timer, "", 0, noFires)
			first := s.setStatus(
				made.Timer,
				timer.StatusActive,
				planAt(0, due-timer.MinuteMS),
			).Fires
			require.Equal(t, timer.ReasonSuperseded, s.fire(made.Fires[0]).Outcome.Reason)
			if edited {
				d := made.Timer.Definition
				d.Schedule.MaxFires = 0
				first = s.edit(s.timer(made.Timer.ID), d, planAt(0, due-timer.MinuteMS)).Fires
				if len(first) == 0 { // the row has moved, and needs no new entry in the window
					first = s.openOf(made.Timer.ID)
				}
			}
			won := s.claim(session, first)
			require.Len(t, won, 1)
			o := s.withSuccessor(won[0])
			o.Next.DueMS, o.Next.RunAtMS = due, due
			var started []timer.Fire
			if completed {
				started = s.complete(store.Completion{
					FireID: won[0].FireID, Attempt: s.accepted(session, won[0]).Attempt,
					FinishedMS: s.nowMS(), Next: o.Next,
				}).Fires
			} else {
				_, started = s.record(session, o)
			}
			require.Equal(t, ids(made.Fires), ids(started))
			s.requireOneOutcome(session, started)
			require.EqualValues(t, 2, s.timer(made.Timer.ID).FiresCreated)
		}
	}
}

// chainsContinueWithFiresToSkip checks that a chain goes on with a fire that its owner wants to skip as
// superseded: in the same batch, in either order, or before.
func chainsContinueWithFiresToSkip(t *testing.T, s *setup) {
	session := s.session()
	for _, edit := range []bool{true, false} {
		for _, order := range []string{"chain, skip", "skip, chain", "skip before"} {
			item := s.newTimer()
			item.Activate = true
			item.Definition.Schedule = timer.Schedule{
				Kind: timer.KindFixedDelay, Every: timer.Duration(time.Minute),
			}
			due := s.nowMS() + 2*timer.MinuteMS
			made := s.create(item, planAt(0, due))
			held := s.claim(session, made.Fires)
			require.Len(t, held, 1)
			var first []timer.Fire
			if plan := planAt(0, due-timer.MinuteMS); edit {
				d := made.Timer.Definition
				d.Schedule.Every = timer.Duration(2 * time.Minute)
				first = s.edit(made.Timer, d, plan).Fires
			} else {
				s.pause(made.Timer, "", 0, noFires)
				first = s.setStatus(made.Timer, timer.StatusActive, plan).Fires
			}
			won := s.claim(session, first)
			require.Len(t, won, 1)
			chain := s.withSuccessor(won[0])
			chain.Next.DueMS, chain.Next.RunAtMS = due, due
			skip := timer.Outcome{
				Fire: held[0], Kind: timer.Skipped, Reason: timer.ReasonSuperseded,
				FinishedMS: s.nowMS(), UntilMS: due, Count: 1,
			}
			if order == "skip before" {
				lost, _ := s.record(session, skip)
				require.Empty(t, lost)
				_, started := s.record(session, chain)
				require.Equal(t, ids(held), ids(started))
				s.requireOneOutcome(session, started)
				continue
			}
			batch := []timer.Outcome{chain, skip}
			if order == "skip, chain" {
				slices.Reverse(batch)
			}
			for range 2 { // as after an unknown result
				lost, _, err := s.st().Record(t.Context(), session, batch, nil)
				require.NoError(t, err)
				require.Equal(t, []timer.FireID{held[0].FireID}, lost, "%v, %v", edit, order)
				rec := s.fire(held[0])
				require.NotNil(t, rec.Open)
				require.Equal(t, session, rec.Open.Owner)
				now := s.timer(held[0].Timer)
				require.Equal(t, now.Version, rec.Open.Version)
				require.Equal(t, now.ActiveEpoch, rec.Open.Epoch)
			}
		}
	}
}

// firesThatWereLeftAreNotAhead checks that a fire which an edit has left is not taken for the next one
// of its chain, although its schedule, planned anew under a calendar, comes to it: neither by an edit,
// nor by a change of priority, nor by one of the calendar.
func firesThatWereLeftAreNotAhead(t *testing.T, s *setup) {
	_, err := s.put("closed", "tue", 0)
	require.NoError(t, err)
	session := s.session()
	for _, change := range []string{"edit", "priority", "calendar"} {
		item := s.newTimer()
		item.Activate = true
		item.Definition.Schedule = timer.Schedule{
			Kind: timer.KindFixedDelay, Every: timer.Duration(time.Minute), MaxFires: 5,
			Calendars: []string{"closed"},
		}
		made := s.create(item, planAt(0, s.nowMS()))
		won := s.claim(session, made.Fires)
		require.Len(t, won, 1)
		left := s.nowMS() + 100_000
		o := s.withSuccessor(won[0])
		o.Next.DueMS, o.Next.RunAtMS = left, left
		_, started := s.record(session, o)
		require.Len(t, started, 1)
		d := made.Timer.Definition
		d.Schedule.Every = timer.Duration(2 * time.Minute)
		first := s.edit(made.Timer, d, planAt(0, left-timer.MinuteMS)).Fires
		require.Len(t, first, 1)
		require.EqualValues(t, 2, s.timer(made.Timer.ID).FiresCreated)

		var goesOnMS int64 // where the delay goes on
		plan := func(tm *timer.Timer, nowMS int64) store.Plan {
			if tm.Version < 3 { // to find what is ahead
				return planAt(0, left)(tm, nowMS)
			}
			goesOnMS = tm.NextDueMS
			return planAt(0, left-30_000)(tm, nowMS)
		}
		switch change {
		case "edit":
			d.Schedule.Every = timer.Duration(3 * time.Minute)
			s.edit(s.timer(made.Timer.ID), d, plan)
		case "priority":
			d.Priority = timer.PriorityHigh
			s.edit(s.timer(made.Timer.ID), d, plan)
			require.Equal(t, timer.LevelHigh, s.fire(first[0]).Open.PriorityLevel)
		case "calendar":
			_, err := s.put("closed", "wed", 1)
			require.NoError(t, err)
			s.expandDue(plan)
			require.Equal(t, first[0].DueMS-2*timer.MinuteMS+1, goesOnMS)
		}
		after := s.timer(made.Timer.ID)
		require.EqualValues(t, 3, after.Version)
		require.EqualValues(t, 2, after.FiresCreated, "the first one, and the next one")
		require.EqualValues(t, 1, s.fire(started[0]).Open.Version, "for executors to skip")
	}
}

// claimedFiresCountOnce checks that a claimed fire, which an activation leaves to its owner and does not
// take off fires_created, is not counted again when the new chain comes to it: at once, or later and
// at max_fires.
func claimedFiresCountOnce(t *testing.T, s *setup) {
	session := s.session()
	for _, atOnce := range []bool{true, false} {
		for _, most := range []int64{0, 2} {
			item := s.newTimer()
			item.Activate = true
			item.Definition.Schedule = timer.Schedule{
				Kind: timer.KindFixedDelay, Every: timer.Duration(time.Minute), MaxFires: most,
			}
			due := s.nowMS() + 2*timer.MinuteMS
			made := s.create(item, planAt(0, due))
			require.Len(t, s.claim(session, made.Fires), 1)
			s.pause(made.Timer, "", 0, noFires)
			if atOnce {
				on := s.setStatus(made.Timer, timer.StatusActive, planAt(0, due))
				require.EqualValues(t, 1, on.Timer.FiresCreated)
			} else {
				first := s.setStatus(
					made.Timer,
					timer.StatusActive,
					planAt(0, due-timer.MinuteMS),
				).Fires
				won := s.claim(session, first)
				require.Len(t, won, 1)
				o := s.withSuccessor(won[0])
				o.Next.DueMS = due
				s.record(session, o)
				require.EqualValues(t, 2, s.timer(made.Timer.ID).FiresCreated)
			}
			require.EqualValues(t, 2, s.fire(made.Fires[0]).Open.Epoch)
		}
	}
}

// fire returns a fire as it is stored.
func (s *setup) fire(f timer.Fire) store.FireRecord {
	s.t.Helper()
	rec, err := s.st().Fire(s.t.Context(), "app", f.FireID)
	require.NoError(s.t, err)
	return rec
}

// requireOneOutcome checks that a started fire is open, and that its delivery is its only outcome.
func (s *setup) requireOneOutcome(session timer.ID, started []timer.Fire) {
	s.t.Helper()
	require.Len(s.t, started, 1)
	rec := s.fire(started[0])
	require.Nil(s.t, rec.Outcome)
	require.Equal(s.t, started[0], *rec.Open)
	won := s.claim(session, started)
	require.Len(s.t, won, 1)
	lost, _ := s.record(session, delivered(won[0], s.nowMS()))
	require.Empty(s.t, lost)
	all, err := s.st().History(s.t.Context(), "app", started[0].Timer, timer.FireID{}, 10)
	require.NoError(s.t, err)
	of := slices.DeleteFunc(
		all,
		func(o timer.Outcome) bool { return o.FireID != started[0].FireID },
	)
	require.Len(s.t, of, 1)
	require.Equal(s.t, timer.Delivered, of[0].Kind)
}

// delaysCountFromTheLastEnd checks that the first fire of a new chain runs one delay after the end
// of the last call of the chain before: whether it waits for that, is due after it, or has the slot
// already.
func delaysCountFromTheLastEnd(t *testing.T, s *setup) {
	const delay = 10 * time.Second
	session := s.session()
	queue := timer.Concurrency{Policy: timer.ConcurrencyQueueAll}
	request := func(f timer.Fire, nowMS int64) store.SlotResult {
		t.Helper()
		out, err := s.st().
			AcquireSlots(t.Context(), session, []store.SlotRequest{{Fire: f, Concurrency: queue, DelayAfterEnd: delay, NowMS: nowMS}})
		require.NoError(t, err)
		return out[0]
	}
	for _, c := range []struct{ waits, completed bool }{{}, {waits: true}, {completed: true}} {
		waits := c.waits
		tm, first := s.delayed(session, 0)
		now := s.nowMS()
		require.Equal(
			t,
			store.SlotGranted,
			request(first, now).SlotVerdict,
			"no call has ended yet",
		)
		s.setStatus(tm, timer.StatusInactive, noFires)
		next := s.setStatus(tm, timer.StatusActive, planAt(0, now+1000)).Fires
		require.Len(t, next, 1)
		second := s.claim(session, next)[0]
		if waits {
			entered := request(second, now+1000)
			require.Equal(t, store.SlotQueued, entered.SlotVerdict)
			second = entered.Fire
		}
		endMS := now + 3000
		var made []timer.Fire
		if c.completed {
			s.complete(completed(s.accepted(session, first)))
			rec, err := s.st().Fire(t.Context(), "app", first.FireID)
			require.NoError(t, err)
			endMS = rec.Outcome.FinishedMS
		} else {
			o := delivered(first, endMS)
			o.Serial = true
			_, made = s.record(session, o)
		}
		if waits {
			require.Equal(t, ids([]timer.Fire{second}), ids(made))
			second = s.claim(session, made)[0]
		}
		entered := request(second, now+3001)
		require.Equal(t, store.SlotQueued, entered.SlotVerdict)
		require.Equal(t, endMS+delay.Milliseconds(), entered.Fire.RunAtMS)
		require.Zero(t, s.running(tm.ID), "other fires may run meanwhile")
		second = s.claim(session, []timer.Fire{entered.Fire})[0]
		require.Equal(t, store.SlotGranted, request(second, entered.Fire.RunAtMS).SlotVerdict)
	}
}

// delayedFiresGiveTheirSlotOn checks that the first fire in the queue gets the slot of one that has it
// and waits for its delay.
func delayedFiresGiveTheirSlotOn(t *testing.T, s *setup) {
	session := s.session()
	queue := timer.Concurrency{Policy: timer.ConcurrencyQueueAll}
	tm, first := s.delayed(session, 0)
	require.Equal(t, store.SlotGranted, s.acquireSlot(session, first, queue).SlotVerdict)
	s.setStatus(tm, timer.StatusInactive, noFires)
	now := s.nowMS()
	next := s.setStatus(tm, timer.StatusActive, planAt(0, now+1000)).Fires
	require.Len(t, next, 1)
	second := s.claim(session, next)[0]
	require.Equal(t, store.SlotQueued, s.acquireSlot(session, second, queue).SlotVerdict)
	requested := s.requested(session, tm.ID, now+2000, 1)[0]
	require.Equal(t, store.SlotQueued, s.acquireSlot(session, requested, queue).SlotVerdict)
	_, made := s.finish(session, first)
	require.Equal(t, ids([]timer.Fire{second}), ids(made))
	second = s.claim(session, made)[0]
	out, err := s.st().AcquireSlots(t.Context(), session, []store.SlotRequest{{
		Fire: second, Concurrency: queue, DelayAfterEnd: time.Minute, NowMS: s.nowMS(),
	}})
	require.NoError(t, err)
	require.Equal(t, store.SlotQueued, out[0].SlotVerdict)
	require.Equal(t, requested.FireID, s.running(tm.ID))
	rec, err := s.st().Fire(t.Context(), "app", requested.FireID)
	require.NoError(t, err)
	require.Equal(t, timer.FireReady, rec.Open.State)
	require.LessOrEqual(t, rec.Open.RunAtMS, s.nowMS(), "it does not wait to ask again")
	requested = s.claimAgain(session, requested)
	require.Equal(t, store.SlotGranted, s.acquireSlot(session, requested, queue).SlotVerdict)
}

// skipsDoNotCount checks that a skipped fire of a timer with max_fires allows one more, once, and
// at once if the timer is active.
func skipsDoNotCount(t *testing.T, s *setup) {
	plan := grid(10*time.Minute, 1000)
	d := gridDefinition(time.Second)
	d.Schedule.MaxFires = 3
	session := s.session()
	made := s.gridTimer(d, plan)
	require.Len(t, made.Fires, 3)
	require.Empty(t, s.expandDue(plan))
	won := s.claim(session, made.Fires)
	skip := func(f timer.Fire) timer.Outcome {
		return timer.Outcome{
			Fire:       f,
			Kind:       timer.Skipped,
			Reason:     timer.ReasonOverlap,
			FinishedMS: s.nowMS(),
			UntilMS:    f.DueMS,
			Count:      1,
			Uncounted:  true,
		}
	}
	s.record(session, skip(won[0]))
	require.EqualValues(t, 2, s.timer(made.Timer.ID).FiresCreated)
	lost, _ := s.record(session, skip(won[0]))
	require.Empty(t, lost)
	require.EqualValues(
		t,
		2,
		s.timer(made.Timer.ID).FiresCreated,
		"recorded again, and not counted again",
	)
	more := s.expandDue(plan)
	require.Len(t, more, 1)
	require.Equal(t, made.Fires[2].DueMS+1000, more[0].DueMS)

	s.pause(made.Timer, "", 0, plan)
	s.record(session, skip(won[1]))
	require.Empty(t, s.expandDue(plan))
	require.EqualValues(t, 2, s.timer(made.Timer.ID).FiresCreated)
	require.Len(t, s.setStatus(made.Timer, timer.StatusActive, plan).Fires, 1)
}

// skipsOfWhatAnEditTookBack checks that a fire which an edit has taken off fires_created is not taken
// off again by its skip.
func skipsOfWhatAnEditTookBack(t *testing.T, s *setup) {
	plan := grid(10*time.Minute, 1000)
	d := gridDefinition(20 * time.Second)
	d.Schedule.MaxFires = 8
	session := s.session()
	made := s.gridTimer(d, plan)
	held := s.claim(session, made.Fires)
	edited := d
	edited.Schedule.Every = timer.Duration(40 * time.Second)
	s.edit(made.Timer, edited, plan)
	s.pause(made.Timer, "", 0, plan)
	require.EqualValues(t, 8, s.timer(made.Timer.ID).FiresCreated)
	left := int64(8)
	for _, f := range held {
		s.record(session, timer.Outcome{
			Fire:       f,
			Kind:       timer.Skipped,
			Reason:     timer.ReasonPaused,
			FinishedMS: s.nowMS(),
			UntilMS:    f.DueMS,
			Count:      1,
			Uncounted:  true,
		})
		if f.DueMS%40_000 == 0 {
			left-- // the new plan has it, too
		}
	}
	require.Less(t, left, int64(8))
	require.Equal(t, left, s.timer(made.Timer.ID).FiresCreated)
}

// activationEndsTheChain checks that an activation of a fixed delay with max_fires ends the fire of
// the chain before, which then does not count. A claimed fire is left to its owner.
func activationEndsTheChain(t *testing.T, s *setup) {
	for _, claimed := range []bool{false, true} {
		item := s.newTimer()
		item.Activate = true
		item.Definition.Schedule = timer.Schedule{
			Kind:     timer.KindFixedDelay,
			Every:    timer.Duration(time.Minute),
			MaxFires: 1,
		}
		due := s.nowMS() + timer.MinuteMS
		made := s.create(item, planAt(0, due))
		session := s.session()
		if claimed {
			s.claim(session, made.Fires)
		}
		s.pause(made.Timer, "", 0, noFires)
		next := s.setStatus(made.Timer, timer.StatusActive, planAt(0, due+1)).Fires
		require.Len(t, next, 1)
		rec, err := s.st().Fire(t.Context(), "app", made.Fires[0].FireID)
		require.NoError(t, err)
		if claimed {
			require.NotNil(t, rec.Open)
			require.EqualValues(t, 2, s.timer(made.Timer.ID).FiresCreated)
			continue
		}
		require.Equal(t, timer.ReasonSuperseded, rec.Outcome.Reason)
		require.EqualValues(t, 1, s.timer(made.Timer.ID).FiresCreated)
	}
}

// chainsDueSoonerAreLast activates a fixed delay whose new chain is due sooner than the one before,
// as under a calendar. Its last fire is the new one, which an edit finds.
func chainsDueSoonerAreLast(t *testing.T, s *setup) {
	item := s.newTimer()
	item.Activate = true
	item.Definition.Schedule = timer.Schedule{
		Kind: timer.KindFixedDelay, Every: timer.Duration(time.Minute), MaxFires: 3,
	}
	due := s.nowMS() + 2*timer.MinuteMS
	made := s.create(item, planAt(0, due))
	s.pause(made.Timer, "", 0, noFires)
	on := s.setStatus(made.Timer, timer.StatusActive, planAt(0, due-1))
	require.Equal(t, due-1, on.Timer.LastDueMS)
	require.EqualValues(t, 1, on.Timer.FiresCreated)
	d := made.Timer.Definition
	d.Schedule.Every = timer.Duration(2 * time.Minute)
	edited := s.edit(on.Timer, d, planAt(0, due+1))
	require.Equal(t, due+1, edited.Timer.LastDueMS)
	require.EqualValues(t, 1, edited.Timer.FiresCreated)
}

// skipsOfAClaimedChain checks that a fixed delay's fire which was claimed before an activation is taken
// off when it is skipped, also after an edit, which takes back the new chain only.
func skipsOfAClaimedChain(t *testing.T, s *setup) {
	for _, most := range []int64{1, 3} {
		skipOfAClaimedChainAfterAnEdit(t, s, most)
	}
}

func skipOfAClaimedChainAfterAnEdit(t *testing.T, s *setup, most int64) {
	item := s.newTimer()
	item.Activate = true
	item.Definition.Schedule = timer.Schedule{
		Kind: timer.KindFixedDelay, Every: timer.Duration(time.Minute), MaxFires: most,
	}
	due := s.nowMS() + timer.MinuteMS
	made := s.create(item, planAt(0, due))
	session := s.session()
	held := s.claim(session, made.Fires)
	s.pause(made.Timer, "", 0, noFires)
	again, want := planAt(0, due+1), int64(1)
	if most == 1 { // as Planner: no fire is left, and the chain begins there later
		again, want = func(tm *timer.Timer, _ int64) store.Plan {
			return store.Plan{NextDueMS: tm.NextDueMS, ExpandAtMS: timer.NeverMS}
		}, 0
	}
	s.setStatus(made.Timer, timer.StatusActive, again)
	s.until(s.nowMS() + 5)
	d := made.Timer.Definition
	d.Schedule.Every = timer.Duration(2 * time.Minute)
	s.edit(s.timer(made.Timer.ID), d, func(tm *timer.Timer, now int64) store.Plan {
		if most == 1 && tm.FiresCreated >= 1 {
			return again(tm, now)
		}
		return planAt(0, due+2)(tm, now)
	})
	s.record(session, timer.Outcome{
		Fire: held[0], Kind: timer.Skipped, Reason: timer.ReasonSuperseded,
		FinishedMS: s.nowMS(), UntilMS: held[0].DueMS, Count: 1, Uncounted: true,
	})
	require.Equal(t, want, s.timer(made.Timer.ID).FiresCreated, "what is open counts")
}

func supersededOnlyInItsVersion(t *testing.T, s *setup) {
	plan := grid(10*time.Minute, 1000)
	made := s.gridTimer(gridDefinition(20*time.Second), plan)
	session := s.session()
	held := s.claim(session, made.Fires[5:9])
	require.Len(t, held, 4)
	edited := s.edit(made.Timer, gridDefinition(40*time.Second), plan)
	kept, gone := 0, 0
	for _, f := range held {
		o := timer.Outcome{
			Fire:       f,
			Kind:       timer.Skipped,
			Reason:     timer.ReasonSuperseded,
			FinishedMS: s.nowMS(),
			UntilMS:    f.DueMS,
			Count:      1,
		}
		lost, _ := s.record(session, o)
		rec, err := s.st().Fire(t.Context(), "app", f.FireID)
		require.NoError(t, err)
		if f.DueMS%40_000 == 0 {
			kept++
			require.Equal(t, []timer.FireID{f.FireID}, lost, "the row has another version")
			require.Equal(t, edited.Timer.Version, rec.Open.Version)
			require.Equal(t, session, rec.Open.Owner)
			o.Version = rec.Open.Version
			lost, _ = s.record(session, o)
			require.Empty(t, lost)
		} else {
			gone++
			require.Empty(t, lost)
			require.Equal(t, timer.ReasonSuperseded, rec.Outcome.Reason)
		}
	}
	require.Equal(t, []int{2, 2}, []int{kept, gone})
}

// activationBeginsAChain activates a fixed delay again. Its first fire is due when the open one of
// the earlier chain is, which happens if a calendar excludes all instants before.
func activationBeginsAChain(t *testing.T, s *setup) {
	session := s.session()
	item := s.newTimer()
	item.Activate = true
	item.Definition.Schedule = timer.Schedule{
		Kind:  timer.KindFixedDelay,
		Every: timer.Duration(time.Minute),
	}
	due := s.nowMS() + timer.MinuteMS
	made := s.create(item, planAt(0, due))
	held := s.claim(session, made.Fires)
	require.Len(t, held, 1)
	require.EqualValues(t, 1, held[0].Epoch)
	s.setStatus(made.Timer, timer.StatusPaused, noFires)
	s.setStatus(made.Timer, timer.StatusActive, planAt(0, due))
	rec, err := s.st().Fire(t.Context(), "app", held[0].FireID)
	require.NoError(t, err)
	require.EqualValues(t, 2, rec.Open.Epoch, "it is the new chain's")
	require.Equal(t, session, rec.Open.Owner)
	lost, _ := s.record(session, timer.Outcome{
		Fire:       held[0],
		Kind:       timer.Skipped,
		Reason:     timer.ReasonSuperseded,
		FinishedMS: s.nowMS(),
		UntilMS:    due,
		Count:      1,
		Serial:     true,
	})
	require.Equal(t, []timer.FireID{held[0].FireID}, lost, "the row has another epoch")
	lost, next := s.record(session, s.withSuccessor(*rec.Open))
	require.Empty(t, lost)
	require.Len(t, next, 1, "the chain continues")

	// The rest of an earlier chain is superseded and passes its slot on.
	s.setStatus(made.Timer, timer.StatusPaused, noFires)
	// It is half a minute apart from the earlier chain, which is due a minute after its record.
	head := s.setStatus(made.Timer, timer.StatusActive, planAt(0, due+timer.MinuteMS/2)).Fires
	require.Len(t, head, 1)
	queue := timer.Concurrency{Policy: timer.ConcurrencyQueueAll}
	old, head := s.claim(session, next), s.claim(session, head)
	require.Equal(t, store.SlotGranted, s.acquireSlot(session, old[0], queue).SlotVerdict)
	require.Equal(t, store.SlotQueued, s.acquireSlot(session, head[0], queue).SlotVerdict)
	o := s.withSuccessor(old[0])
	o.Serial = true
	lost, next = s.record(session, o)
	require.Empty(t, lost)
	require.Equal(t, ids(head), ids(next), "one chain continues")
}

func concurrentSuccessors(t *testing.T, s *setup) {
	session := s.session()
	tm, first := s.delayed(session, 0)
	o := s.withSuccessor(first)
	o.Serial = true
	var told atomic.Int64
	s.together(8, func(ctx context.Context, i int, st store.Store) error {
		if i%4 == 3 {
			_, err := st.SetStatus(
				ctx,
				[]store.StatusChange{{App: "app", ID: tm.ID, Status: timer.StatusActive}},
				noFires,
			)
			return err
		}
		lost, made, err := st.Record(ctx, session, []timer.Outcome{o}, nil)
		told.Add(int64(len(made)))
		if len(lost) > 0 {
			t.Errorf("lost %v", lost)
		}
		return err
	})
	require.Positive(t, told.Load())
	got, err := s.st().Timer(t.Context(), "app", tm.ID)
	require.NoError(t, err)
	require.EqualValues(t, 2, got.FiresCreated)
	require.Len(t, s.openOf(tm.ID), 1)
}

func addedFires(t *testing.T, s *setup) {
	ctx := t.Context()
	tm := s.create(s.newTimer(), noFires).Timer
	now := s.nowMS()
	fire := func(series int64) timer.Fire {
		return timer.Fire{
			FireID:  timer.FireID{Timer: tm.ID, DueMS: now, Series: series},
			RunAtMS: now,
			Cause:   timer.CauseRunNow,
		}
	}
	b := definition("http://b")
	s.edit(tm, b, noFires)
	added, err := s.st().AddFires(ctx, "app", tm.ID, []timer.Fire{fire(1), fire(2), fire(1)})
	require.NoError(t, err)
	require.Len(t, added, 2)
	for _, f := range added {
		require.EqualValues(t, 2, f.Version)
		require.Equal(t, tm.AppID, f.AppID)
		rec, err := s.st().Fire(ctx, "app", f.FireID)
		require.NoError(t, err)
		require.Equal(t, f, *rec.Open)
	}
	session := s.session()
	s.record(session, delivered(s.claim(session, added[:1])[0], now))
	added, err = s.st().AddFires(ctx, "app", tm.ID, []timer.Fire{fire(1), fire(2), fire(3)})
	require.NoError(t, err)
	require.Len(t, added, 1, "neither an open nor a finished fire")
	require.EqualValues(t, 3, added[0].Series)
	got, err := s.st().Timer(ctx, "app", tm.ID)
	require.NoError(t, err)
	require.Zero(t, got.FiresCreated)

	var n atomic.Int64
	s.together(8, func(ctx context.Context, _ int, st store.Store) error {
		added, err := st.AddFires(ctx, "app", tm.ID, []timer.Fire{fire(8), fire(9)})
		n.Add(int64(len(added)))
		return err
	})
	require.EqualValues(t, 2, n.Load())

	_, err = s.st().AddFires(ctx, "other", tm.ID, []timer.Fire{fire(4)})
	requireCode(t, timer.CodeNotFound, err)
	_, err = s.st().AddFires(ctx, "app", tm.ID, []timer.Fire{fire(0)})
	requireCode(t, timer.CodeInvalid, err)
	s.setStatus(tm, timer.StatusDeleted, noFires)
	_, err = s.st().AddFires(ctx, "app", tm.ID, []timer.Fire{fire(4)})
	requireCode(t, timer.CodeNotFound, err)
}
