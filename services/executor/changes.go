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
	// changesKept is how long entries are sure to be there: half of what housekeeping leaves.
	changesKept    = 30 * time.Minute
	changesTimeout = 900 * time.Millisecond
	nudgesMax      = 4096
)

// readChanges polls the change log every step2, until ctx ends. When the store is away the book
// grows stale, and the executor asks before each call instead, in vain as well: nothing is called
// that may have been switched off.
func (s *Service) readChanges(ctx context.Context) error {
	tick := time.NewTicker(s.opts.ChangePollInterval)
	defer tick.Stop()
	var marks []lookMark
	for {
		sent := time.Now()
		if n := len(marks); n > 0 && sent.Sub(marks[n-1].at) > changesKept {
			// So long cut off or frozen that entries may have been cleaned up unread: what the book
			// says may be wrong for ever.
			s.book.forget()
			s.tenants.forgetAll()
			marks = nil
		}
		last, err := s.look(ctx, after(marks, sent))
		if err != nil {
			s.log.Debug().Err(err).Msg("change log not read")
		} else {
			s.book.fresh(sent)
			marks = append(trim(marks, sent), lookMark{at: sent, last: last})
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// lookMark remembers how far the log went at a time.
type lookMark struct {
	at   time.Time
	last int64
}

// after returns the sequence behind which to look: the last one known at least the overlap ago. -1
// asks for the end of the log.
func after(marks []lookMark, now time.Time) int64 {
	if len(marks) == 0 {
		return -1
	}
	return trim(marks, now)[0].last
}

// trim drops marks that are older than the overlap, but for the youngest of them.
func trim(marks []lookMark, now time.Time) []lookMark {
	for len(marks) > 1 && now.Sub(marks[1].at) >= changesOverlap {
		marks = marks[1:]
	}
	return marks
}

func (s *Service) look(ctx context.Context, from int64) (last int64, err error) {
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
		s.tenants.forget(s.book.apply(page)...)
		for i := range page {
			s.calls.overtaken(&page[i].State)
		}
		if len(page) > 0 {
			last = page[len(page)-1].Seq
		}
		if len(page) < changesPage {
			s.book.passed(from)
			return last, nil
		}
	}
}

// nudged takes a timers-changed message: the timer is read at once instead of at the next look.
func (s *Service) nudged(_ context.Context, m bus.Message) {
	var c carillonv1.TimerChanged
	if proto.Unmarshal(m.Payload, &c) != nil {
		return // the change log tells
	}
	select {
	case s.nudges <- timer.ID(c.GetTimerId()):
	default: // so many at once: the change log tells
	}
}

// readNudged reads the timers of nudges, as many at a time as there are.
func (s *Service) readNudged(ctx context.Context) error {
	for {
		var ids []timer.ID
		select {
		case id := <-s.nudges:
			ids = append(ids, id)
		case <-ctx.Done():
			return nil
		}
		for more := true; more && len(ids) < store.MaxBatch; {
			select {
			case id := <-s.nudges:
				ids = append(ids, id)
			default:
				more = false
			}
		}
		if ids = s.book.knows(ids); len(ids) == 0 {
			continue
		}
		call, cancel := context.WithTimeout(ctx, changesTimeout)
		states, err := s.book.read(call, ids)
		if err != nil {
			s.log.Debug().Err(err).Msg("changed timers not read")
		}
		cancel()
		for i := range states {
			s.calls.overtaken(&states[i])
		}
	}
}
