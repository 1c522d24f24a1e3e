package timers

import (
	"context"
	"fmt"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/api/input"
	"github.com/carillon-timer/carillon/services/api/v2/fires"
)

// describeOneShotFire describes the fire of a one-shot that has come due, so that the caller who
// wants to move it knows whether it was called. movable is true while the fire waits for its timer
// to become active. dueMS is the due instant of the schedule.
func (s *Resource) describeOneShotFire(
	ctx context.Context,
	t *timer.Timer,
	dueMS int64,
) (text string, movable bool, err error) {
	f, err := s.Store.Fire(ctx, t.App, timer.FireID{Timer: t.ID, DueMS: dueMS})
	if timer.CodeOf(err) == timer.CodeNotFound {
		// An instant that passed while the timer was inactive became due at its activation.
		f, err = s.latestFire(ctx, t)
	}
	switch {
	case err != nil:
		return "", false, err
	case f.Outcome != nil:
		return describeOutcome(f.Outcome), false, nil
	case f.Open != nil:
		text, movable = describeOpenFire(
			f.Open,
			t.Status == timer.StatusActive,
			s.Now().UnixMilli(),
		)
		return text, movable, nil
	case t.NextDueMS != timer.NeverMS:
		return "is due at " + input.Instant(dueMS) + ", and not expanded yet", false, nil
	default:
		return "was due at " + input.Instant(
			dueMS,
		) + ", and no record of it is kept any more", false, nil
	}
}

// latestFire returns the due fire of a one-shot's schedule, whatever its due instant.
func (s *Resource) latestFire(ctx context.Context, t *timer.Timer) (store.FireRecord, error) {
	const latest = 100 // there may be run-nows among them
	page, err := s.Store.OpenFires(
		ctx,
		t.App,
		t.ID,
		store.OpenFiresQuery{
			UntilMS:   s.Now().UnixMilli(),
			ScanLimit: fires.OpenScanLimit,
			Limit:     latest,
		},
	)
	if err != nil {
		return store.FireRecord{}, err //nolint:wrapcheck // the store says what it was doing
	}
	for i := range page.Fires {
		if page.Fires[i].Series == 0 {
			return store.FireRecord{Open: &page.Fires[i]}, nil
		}
	}
	done, err := s.Store.History(ctx, t.App, t.ID, timer.FireID{}, latest)
	if err != nil {
		return store.FireRecord{}, err //nolint:wrapcheck // the store says what it was doing
	}
	for i := range done {
		if done[i].Series == 0 {
			return store.FireRecord{Outcome: &done[i]}, nil
		}
	}
	return store.FireRecord{}, nil
}

func describeOutcome(o *timer.Outcome) string {
	if o.Attempts == 0 {
		return fmt.Sprintf(
			"was due at %s and not called: %s (%s)",
			input.Due(o.DueMS),
			o.Kind,
			o.Reason,
		)
	}
	return fmt.Sprintf("was called at %s: %s", input.Instant(o.FinishedMS-o.DurationMS), o.Kind)
}

// describeOpenFire describes an open fire that is due. active tells whether its timer is active.
func describeOpenFire(f *timer.Fire, active bool, nowMS int64) (text string, movable bool) {
	due := input.Due(f.DueMS)
	switch {
	case f.State == timer.FireAccepted:
		return "was called, and waits for its receiver to complete it", false
	case f.RunAtMS == timer.DeferredMS || !active && f.Owner == 0:
		return fmt.Sprintf("was due at %s, and waits until the timer is active", due), true
	case f.Attempt > 0 && f.Owner != 0:
		return fmt.Sprintf(
			"is being called: it was due at %s, and %d attempts failed",
			due,
			f.Attempt,
		), false
	case f.Attempt > 0:
		return fmt.Sprintf(
			"is being called: attempt %d is to be made at %s",
			f.Attempt+1,
			input.Instant(f.RunAtMS),
		), false
	case f.Owner != 0:
		return fmt.Sprintf(
			"is due at %s and with an executor, which is calling it or about to",
			due,
		), false
	case f.State == timer.FireWaiting:
		return fmt.Sprintf("is due at %s, and waits for the fire before it to finish", due), false
	case f.State == timer.FireDeferred:
		return fmt.Sprintf(
			"is due at %s, and waits for the limits of its app or the breaker of its endpoint",
			due,
		), false
	case f.RunAtMS > nowMS:
		return fmt.Sprintf(
			"is due at %s, and to be called at %s",
			due,
			input.Instant(f.RunAtMS),
		), false
	default:
		return fmt.Sprintf("is due at %s, and to be called at once", due), false
	}
}
