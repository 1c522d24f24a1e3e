package executor

import (
	"context"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/carillon-timer/carillon/libs/bus"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	carillonv1 "github.com/carillon-timer/carillon/proto/gen/carillon/v1"
)

const (
	// changesOverlap is how far each look goes back: a transaction that took its sequence earlier
	// may commit so much later.
	changesOverlap = 10 * time.Second
	// changesBefore is how many entries before the last one the first look goes back.
	changesBefore = 1000
	changesPage   = 2000
	// changesRetained is how long entries are sure to be there: half of what housekeeping leaves.
	changesRetained  = 30 * time.Minute
	changesTimeout   = 900 * time.Millisecond
	maxChangedTimers = 4096
)

// pollChangeLog polls the change log every step2, until ctx ends. When the store is away the book
// grows stale, and the executor asks before each call instead, in vain as well: nothing is called
// that may have been switched off.
func (s *Service) pollChangeLog(ctx context.Context) error {
	tick := time.NewTicker(s.opts.ChangePollInterval)
	defer tick.Stop()
	var positions []logPosition
	for {
		sent := time.Now()
		if n := len(positions); n > 0 && sent.Sub(positions[n-1].at) > changesRetained {
			// So long cut off or frozen that entries may have been cleaned up unread: what the book
			// says may be wrong for ever.
			s.stateCache.reset()
			s.tenants.forgetAll()
			positions = nil
		}
		last, err := s.readChangesAfter(ctx, overlapStart(positions, sent))
		if err != nil {
			s.log.Debug().Err(err).Msg("change log not read")
		} else {
			s.stateCache.refreshed(sent)
			positions = append(trim(positions, sent), logPosition{at: sent, last: last})
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// logPosition remembers how far the log went at a time.
type logPosition struct {
	at   time.Time
	last int64
}

// overlapStart returns the sequence behind which to look: the last one known at least the overlap ago. -1
// asks for the end of the log.
func overlapStart(positions []logPosition, now time.Time) int64 {
	if len(positions) == 0 {
		return -1
	}
	return trim(positions, now)[0].last
}

// trim drops marks that are older than the overlap, but for the youngest of them.
func trim(positions []logPosition, now time.Time) []logPosition {
	for len(positions) > 1 && now.Sub(positions[1].at) >= changesOverlap {
		positions = positions[1:]
	}
	return positions
}

func (s *Service) readChangesAfter(ctx context.Context, from int64) (last int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, changesTimeout)
	defer cancel()
	if from < 0 {
		end, err := s.opts.Store.LastChange(ctx)
		if err != nil {
			return 0, err //nolint:wrapcheck // the store says what it was doing
		}
		from = max(0, end-changesBefore)
	}
	for last = from; ; {
		page, err := s.opts.Store.Changes(ctx, last, changesPage)
		if err != nil {
			return 0, err //nolint:wrapcheck // the store says what it was doing
		}
		s.tenants.forget(s.stateCache.apply(page)...)
		for i := range page {
			s.activeCalls.cancelSuperseded(&page[i].State)
		}
		if len(page) > 0 {
			last = page[len(page)-1].Seq
		}
		if len(page) < changesPage {
			s.stateCache.pruneAppChanges(from)
			return last, nil
		}
	}
}

// onTimerChanged takes a timers-changed message: the timer is read at once instead of at the next look.
func (s *Service) onTimerChanged(_ context.Context, m bus.Message) {
	var c carillonv1.TimerChanged
	if proto.Unmarshal(m.Payload, &c) != nil {
		return // the change log tells
	}
	select {
	case s.changedTimers <- timer.ID(c.GetTimerId()):
	default: // so many at once: the change log tells
	}
}

// readChangedTimers reads the timers of nudges, as many at a time as there are.
func (s *Service) readChangedTimers(ctx context.Context) error {
	for {
		var ids []timer.ID
		select {
		case id := <-s.changedTimers:
			ids = append(ids, id)
		case <-ctx.Done():
			return nil
		}
		for more := true; more && len(ids) < store.MaxBatch; {
			select {
			case id := <-s.changedTimers:
				ids = append(ids, id)
			default:
				more = false
			}
		}
		if ids = s.stateCache.cached(ids); len(ids) == 0 {
			continue
		}
		call, cancel := context.WithTimeout(ctx, changesTimeout)
		states, err := s.stateCache.read(call, ids)
		if err != nil {
			s.log.Debug().Err(err).Msg("changed timers not read")
		}
		cancel()
		for i := range states {
			s.activeCalls.cancelSuperseded(&states[i])
		}
	}
}
