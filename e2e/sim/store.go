package sim

import (
	"context"
	"errors"
	"time"

	"github.com/carillon-timer/carillon/libs/clock"
	"github.com/carillon-timer/carillon/libs/slicing"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

var (
	errUnavailable = errors.New("the store is unavailable")
	errAnswerLost  = errors.New("the store's answer is lost")
)

// frequentCalls are the polls that services make all the time and that rarely change anything.
// Without slow calls they take no time, which halves the cost of an idle simulation.
var frequentCalls = map[string]bool{
	"Now":             true,
	"LiveSessions":    true,
	"RenewSession":    true,
	"Changes":         true,
	"MinuteCounts":    true,
	"SliceBacklog":    true,
	"OldestOpen":      true,
	"ExpandBacklog":   true,
	"Cursor":          true,
	"ExpandBackfills": true,
	"ContinueReplans": true,
	"RenewSlices":     true,
	"AckEvents":       true,
	"Overdue":         true,
}

// While the store is slow, this share of slow calls takes this many times as long: seconds, within
// which earlier reads must not be used any more (P5).
const crawlShare, crawlFactor = 0.1, 8

// deadlineContext has a deadline and never ends. A call takes no time in the store, and a
// cancelable context costs a goroutine per statement.
type deadlineContext struct {
	context.Context //nolint:containedctx // it is one
	at              time.Time
}

func (b deadlineContext) Deadline() (time.Time, bool) { return b.at, true }

// gatedStore is one process's access to the store.
type gatedStore struct {
	store.Store // shared; every method that a service calls is overridden

	p *process
}

// gatedCall makes one call. Its request, its effect and its answer can each fail.
//
//nolint:revive // a method, but for its type parameter
func gatedCall[T any](
	s *gatedStore,
	ctx context.Context,
	call string,
	writes bool,
	do func(context.Context) (T, error),
) (T, error) {
	var none T
	p, env := s.p, s.p.env
	if err := p.beforeCall(ctx, call); err != nil {
		return none, timer.Unavailable(call, err)
	}
	var draws [5]float64
	p.draw(draws[:])
	rates := env.storeErrorRates()
	sendDelay, replyDelay := rates.latency(draws[0])
	if replyDelay > 0 && rates.slow > healthy.slow && !frequentCalls[call] &&
		draws[4] < crawlShare {
		sendDelay *= crawlFactor
	}
	switch {
	case replyDelay > 0:
		clock.Pause(ctx, sendDelay)
	case !frequentCalls[call]:
		//nolint:forbidigo // a few ms, that need not end with ctx: at a third of the cost
		time.Sleep(sendDelay)
	}
	if err := p.awaitStore(ctx); err != nil {
		p.noteDisturbance()
		return none, timer.Unavailable(call, err)
	}
	if err := p.passArrival(draws[3] < 0.5); err != nil {
		return none, timer.Unavailable(call, err)
	}
	fail := rates.read
	if writes {
		fail = rates.before
	}
	if draws[1] < fail {
		p.noteDisturbance()
		return none, timer.Unavailable(call, errUnavailable)
	}
	out, err := do(deadlineContext{context.Background(), time.Now().Add(time.Second)})
	if replyDelay > 0 {
		clock.Pause(ctx, replyDelay)
	}
	if lerr := p.afterCall(call); lerr != nil {
		return none, timer.Unavailable(call, lerr)
	}
	if err == nil && (ctx.Err() != nil || writes && draws[2] < rates.after) {
		p.noteDisturbance()
		return none, timer.Unavailable(call, errAnswerLost)
	}
	return out, err
}

// awaitStore waits while the store does not answer this process, or returns an error.
func (p *process) awaitStore(ctx context.Context) error {
	for {
		p.mu.Lock()
		cut := p.cutOff
		p.mu.Unlock()
		away, hangs, over := p.env.storeOutage()
		switch {
		case !away && !cut:
			return nil
		case away && !hangs:
			return errUnavailable
		}
		if cut {
			over = nil
		}
		select {
		case <-over:
		case <-p.died:
			return errDead
		case <-time.After(hangPollInterval):
		case <-ctx.Done():
			return ctx.Err() //nolint:wrapcheck // the caller says what it was doing
		}
	}
}

const hangPollInterval = 100 * time.Millisecond

type noResult = struct{}

func (s *gatedStore) Create(
	ctx context.Context,
	items []store.NewTimer,
	plan store.Planner,
) ([]store.CreateResult, error) {
	return gatedCall(
		s,
		ctx,
		"Create",
		true,
		func(ctx context.Context) ([]store.CreateResult, error) {
			defer s.p.env.observer.lockEffects()()
			out, err := s.Store.Create(ctx, items, plan)
			if err == nil {
				s.p.env.observer.created(items, out)
			}
			return out, err
		},
	)
}

func (s *gatedStore) Timer(ctx context.Context, app string, id timer.ID) (timer.Timer, error) {
	return gatedCall(
		s,
		ctx,
		"Timer",
		false,
		func(ctx context.Context) (timer.Timer, error) { return s.Store.Timer(ctx, app, id) },
	)
}

func (s *gatedStore) SetStatus(
	ctx context.Context,
	items []store.StatusChange,
	plan store.Planner,
) ([]store.StatusResult, error) {
	return gatedCall(
		s,
		ctx,
		"SetStatus",
		true,
		func(ctx context.Context) ([]store.StatusResult, error) {
			defer s.p.env.observer.lockEffects()()
			out, err := s.Store.SetStatus(ctx, items, plan)
			if err == nil {
				s.p.env.observer.changed(out)
			}
			return out, err
		},
	)
}

func (s *gatedStore) States(ctx context.Context, ids []timer.ID) ([]timer.State, error) {
	return gatedCall(
		s,
		ctx,
		"States",
		false,
		func(ctx context.Context) ([]timer.State, error) { return s.Store.States(ctx, ids) },
	)
}

func (s *gatedStore) Definitions(
	ctx context.Context,
	keys []store.VersionKey,
) (map[store.VersionKey]timer.Definition, error) {
	return gatedCall(
		s,
		ctx,
		"Definitions",
		false,
		func(ctx context.Context) (map[store.VersionKey]timer.Definition, error) {
			return s.Store.Definitions(ctx, keys)
		},
	)
}

func (s *gatedStore) VersionAt(ctx context.Context, f timer.Fire) (int32, error) {
	return gatedCall(
		s,
		ctx,
		"VersionAt",
		false,
		func(ctx context.Context) (int32, error) { return s.Store.VersionAt(ctx, f) },
	)
}

func (s *gatedStore) VersionTimes(
	ctx context.Context,
	keys []store.VersionKey,
) (map[store.VersionKey]int64, error) {
	return gatedCall(
		s,
		ctx,
		"VersionTimes",
		false,
		func(ctx context.Context) (map[store.VersionKey]int64, error) { return s.Store.VersionTimes(ctx, keys) },
	)
}

func (s *gatedStore) Changes(ctx context.Context, from int64, limit int) ([]store.Change, error) {
	return gatedCall(
		s,
		ctx,
		"Changes",
		false,
		func(ctx context.Context) ([]store.Change, error) { return s.Store.Changes(ctx, from, limit) },
	)
}

func (s *gatedStore) LastChange(ctx context.Context) (int64, error) {
	return gatedCall(s, ctx, "LastChange", false, s.Store.LastChange)
}

func (s *gatedStore) Expand(
	ctx context.Context,
	limit int,
	plan store.Planner,
) (fires []timer.Fire, n int, err error) {
	fires, err = gatedCall(
		s,
		ctx,
		"Expand",
		true,
		func(ctx context.Context) (fs []timer.Fire, err error) {
			fs, n, err = s.Store.Expand(ctx, limit, plan)
			return fs, err
		},
	)
	return fires, n, err
}

func (s *gatedStore) ContinueReplans(
	ctx context.Context,
	plan store.Planner,
) (fires []timer.Fire, more bool, err error) {
	fires, err = gatedCall(
		s,
		ctx,
		"ContinueReplans",
		true,
		func(ctx context.Context) (fs []timer.Fire, err error) {
			fs, more, err = s.Store.ContinueReplans(ctx, plan)
			return fs, err
		},
	)
	return fires, more, err
}

func (s *gatedStore) Replanning(
	ctx context.Context,
	ids []timer.FireID,
) ([]timer.FireID, error) {
	return gatedCall(
		s,
		ctx,
		"Replanning",
		false,
		func(ctx context.Context) ([]timer.FireID, error) { return s.Store.Replanning(ctx, ids) },
	)
}

func (s *gatedStore) ExpandBacklog(
	ctx context.Context,
	limit int,
) (n int, oldestMS int64, err error) {
	n, err = gatedCall(
		s,
		ctx,
		"ExpandBacklog",
		false,
		func(ctx context.Context) (n int, err error) {
			n, oldestMS, err = s.Store.ExpandBacklog(ctx, limit)
			return n, err
		},
	)
	return n, oldestMS, err
}

func (s *gatedStore) GrowMinutes(
	ctx context.Context,
	grow []slicing.Growth,
) ([]slicing.MinuteCount, error) {
	return gatedCall(
		s,
		ctx,
		"GrowMinutes",
		true,
		func(ctx context.Context) ([]slicing.MinuteCount, error) { return s.Store.GrowMinutes(ctx, grow) },
	)
}

func (s *gatedStore) MinuteCounts(
	ctx context.Context,
	from, to int64,
) ([]slicing.MinuteCount, error) {
	return gatedCall(
		s,
		ctx,
		"MinuteCounts",
		false,
		func(ctx context.Context) ([]slicing.MinuteCount, error) {
			return s.Store.MinuteCounts(ctx, from, to)
		},
	)
}

func (s *gatedStore) FreezeMinute(ctx context.Context, minute int64) (int32, error) {
	return gatedCall(
		s,
		ctx,
		"FreezeMinute",
		true,
		func(ctx context.Context) (int32, error) { return s.Store.FreezeMinute(ctx, minute) },
	)
}

func (s *gatedStore) ClaimSlices(
	ctx context.Context,
	minute int64,
	buckets int32,
	lease time.Duration,
	limit int,
) ([]store.SliceClaim, error) {
	return gatedCall(
		s,
		ctx,
		"ClaimSlices",
		true,
		func(ctx context.Context) ([]store.SliceClaim, error) {
			return s.Store.ClaimSlices(ctx, minute, buckets, lease, limit)
		},
	)
}

func (s *gatedStore) AcquireSlice(
	ctx context.Context,
	c store.SliceClaim,
	holder timer.ID,
	lease time.Duration,
	free bool,
) (bool, error) {
	return gatedCall(
		s,
		ctx,
		"HoldSlice",
		true,
		func(ctx context.Context) (bool, error) { return s.Store.AcquireSlice(ctx, c, holder, lease, free) },
	)
}

func (s *gatedStore) RenewSlices(
	ctx context.Context,
	holder timer.ID,
	held []store.SliceClaim,
	lease time.Duration,
) ([]store.SliceClaim, error) {
	return gatedCall(
		s,
		ctx,
		"RenewSlices",
		true,
		func(ctx context.Context) ([]store.SliceClaim, error) {
			return s.Store.RenewSlices(ctx, holder, held, lease)
		},
	)
}

func (s *gatedStore) FinishSlice(ctx context.Context, c store.SliceClaim) (bool, error) {
	return gatedCall(
		s,
		ctx,
		"FinishSlice",
		true,
		func(ctx context.Context) (bool, error) { return s.Store.FinishSlice(ctx, c) },
	)
}

func (s *gatedStore) Cursor(ctx context.Context, minute int64) (int64, error) {
	return gatedCall(
		s,
		ctx,
		"Cursor",
		false,
		func(ctx context.Context) (int64, error) { return s.Store.Cursor(ctx, minute) },
	)
}

func (s *gatedStore) AdvanceCursor(ctx context.Context, limit int64) (int64, error) {
	return gatedCall(
		s,
		ctx,
		"AdvanceCursor",
		true,
		func(ctx context.Context) (int64, error) { return s.Store.AdvanceCursor(ctx, limit) },
	)
}

func (s *gatedStore) SliceBacklog(ctx context.Context) (int64, error) {
	return gatedCall(s, ctx, "SliceBacklog", false, s.Store.SliceBacklog)
}
