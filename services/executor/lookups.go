package executor

import (
	"context"
	"fmt"
	"time"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/executor/internal/cache"
	"github.com/carillon-timer/carillon/services/executor/internal/inflight"
	"github.com/carillon-timer/carillon/services/executor/internal/lookup"
)

// lookups are what decisions and outcomes ask the store. No worker waits for an answer: the fire
// waits with its question, and goes on with the answer.
type lookups struct {
	states       *lookup.Reader[timer.ID, timer.State]
	definitions  *lookup.Reader[cache.DefinitionQuestion, *cache.Definition]
	inactivities *lookup.Reader[timer.ID, []timer.Inactivity]
	versionsAt   *lookup.Reader[timer.Fire, int32]
	nextVersions *lookup.Reader[store.VersionKey, int64]
	rows         *lookup.Reader[timer.FireID, rowAnswer]
	catchUps     *lookup.Reader[store.CatchUpRequest, bool]
	slots        *lookup.Reader[slotRequest, store.SlotResult]
	deferrals    *lookup.Reader[deferral, bool]
	dispatches   *lookup.Reader[timer.Fire, struct{}]
	tenants      *lookup.Reader[cache.AppQuestion, *cache.App]
	backfills    *lookup.Reader[cache.BackfillQuestion, bool]
	calendars    *lookup.Reader[cache.CalendarQuestion, []timer.Calendar]

	lookup.Set
}

func newLookups(s *Service) *lookups {
	l := new(lookups)
	states := lookup.Batched(2) //nolint:mnd // one waits while the other is read
	states.Timeout = cache.MaxAgeAtDecision
	l.states = lookup.Open(&l.Set, states, s.cache.Timers.Read)
	//nolint:mnd // as above
	l.definitions = lookup.Open(&l.Set, lookup.Batched(2), s.cache.Timers.ReadDefinitions)
	l.inactivities = lookup.Open(&l.Set, lookup.Batched(1), s.cache.Inactivities.Read)
	l.versionsAt = lookup.Open(&l.Set, lookup.Single(), lookup.Each(s.opts.Store.VersionAt))
	l.nextVersions = lookup.Open(&l.Set, lookup.Batched(1), s.nextVersions)
	l.rows = lookup.Open(&l.Set, lookup.Batched(1), s.readRows)
	l.catchUps = lookup.Open(&l.Set, lookup.Batched(1), s.opts.Store.CatchUp)
	l.slots = lookup.Open(&l.Set, lookup.Batched(2), s.acquireSlots) //nolint:mnd // as above
	l.deferrals = lookup.Open(&l.Set, lookup.Batched(1), s.deferAll)
	l.dispatches = lookup.Open(&l.Set, lookup.Batched(1), s.dispatchAll)
	l.tenants = lookup.Open(&l.Set, lookup.PerApp(), lookup.Each(s.cache.Apps.Of))
	l.backfills = lookup.Open(&l.Set, lookup.PerApp(), lookup.Each(s.cache.Backfills.Cancelled))
	l.calendars = lookup.Open(&l.Set, lookup.PerApp(), lookup.Each(s.cache.Calendars.Of))
	return l
}

// ask asks a question about a candidate, which the reader has until the answer. keep adds the
// answer to the candidate, which then goes on.
func ask[Q, A any](
	s *Service,
	r *lookup.Reader[Q, A],
	c *candidate,
	q Q,
	keep func(a A, sent time.Time),
) progress {
	if c.wake == nil { // else its call has begun
		c.entry.WaitFor(timer.WaitStore, s.opts.Clock.Now().UnixMilli())
	}
	r.Ask(c.entry.Fire.AppID, c.entry.QueuePriority(), q, func(a lookup.Answer[A]) {
		if a.Err == nil {
			keep(a.Value, a.Sent)
		}
		s.resume(c, a.Err)
	})
	return waits
}

// nextVersions returns when the versions took effect, or timer.NeverMS for those that do not exist.
func (s *Service) nextVersions(ctx context.Context, keys []store.VersionKey) ([]int64, error) {
	times, err := s.opts.Store.VersionTimes(ctx, keys)
	if err != nil {
		return nil, fmt.Errorf("reading when versions took effect: %w", err)
	}
	out := make([]int64, len(keys))
	for i, k := range keys {
		at, ok := times[k]
		if !ok {
			at = timer.NeverMS
		}
		out[i] = at
	}
	return out, nil
}

// rowAnswer is the row of an open fire.
type rowAnswer struct {
	fire      timer.Fire
	open      bool
	undecided bool // the follow-up of an edit is to decide about it
}

// readRows reads the rows of fires. The follow-up of an edit moves a row before it says that it has
// done so. It is therefore asked first.
func (s *Service) readRows(ctx context.Context, ids []timer.FireID) ([]rowAnswer, error) {
	undecided, err := s.opts.Store.Replanning(ctx, ids)
	if err != nil {
		return nil, fmt.Errorf("reading the replans of timers: %w", err)
	}
	rows, err := s.opts.Store.OpenAmong(ctx, ids)
	if err != nil {
		return nil, fmt.Errorf("reading the rows of fires: %w", err)
	}
	byID := make(map[timer.FireID]rowAnswer, len(ids))
	for _, f := range rows {
		byID[f.FireID] = rowAnswer{fire: f, open: true}
	}
	for _, id := range undecided {
		a := byID[id]
		a.undecided = true
		byID[id] = a
	}
	out := make([]rowAnswer, len(ids))
	for i, id := range ids {
		out[i] = byID[id]
	}
	return out, nil
}

// dispatchAll dispatches fires that the store has released.
func (s *Service) dispatchAll(ctx context.Context, fires []timer.Fire) ([]struct{}, error) {
	s.opts.Dispatch.Committed(ctx, fires)
	return make([]struct{}, len(fires)), nil
}

// dispatch dispatches a released fire of e, without waiting for it.
func (s *Service) dispatch(e *inflight.Entry, f timer.Fire) {
	s.lookups.dispatches.Ask(
		e.Fire.AppID,
		e.Priority(),
		f,
		func(lookup.Answer[struct{}]) {}, // a fire not dispatched is found by the store polls
	)
}
