package cache

import (
	"context"
	"errors"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/carillon-timer/carillon/libs/bus"
	"github.com/carillon-timer/carillon/libs/clock"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	carillonv1 "github.com/carillon-timer/carillon/proto/gen/carillon/v1"
)

const (
	// changesOverlap is how far back each poll reads: a transaction may be sent to be committed this
	// long after it took its sequence number. How long the commit takes is not bounded: see settled.
	changesOverlap = 10 * time.Second
	// changesBefore is how many entries before the last one the first poll reads.
	changesBefore = 1000
	changesPage   = 2000
	// changesRetained is how long entries are sure to exist: half of the retention of the change
	// log.
	changesRetained  = 30 * time.Minute
	changesTimeout   = MaxAgeAtDecision // a later answer decides nothing
	maxChangedTimers = 4096
)

// pollChangeLog polls the change log every PollInterval, and at once after a jump of the host's
// clock, until ctx ends. While the store is
// unavailable the cache goes stale. Then each call reads the state from the store first, which
// fails, so no disabled timer is called.
func (c *Cache) pollChangeLog(ctx context.Context) {
	tick := clock.NewTicker(c.opts.PollInterval)
	var positions []logPosition
	for ctx.Err() == nil {
		jumped := c.opts.Clock.Jumped()
		sent := time.Now()
		if n := len(positions); n > 0 && sent.Sub(positions[n-1].at) > changesRetained {
			// After so long a pause entries may have been purged unread, and cached states may stay
			// wrong.
			c.forgetAll()
			positions = nil
		}
		settled := c.settled(sent)
		first, last, err := c.readChangesAfter(ctx, overlapStart(positions))
		switch {
		case errors.Is(err, errOtherLog):
			c.opts.Logger.Warn().Int64("seq", overlapStart(positions).last.seq).
				Msg("the change log lacks an entry that it had: the database may be a copy")
			c.forgetAll()
			positions = nil
			continue
		case err != nil:
			c.opts.Logger.Debug().Err(err).Msg("change log not read")
		default:
			c.Timers.refreshed(sent)
			if len(positions) == 0 {
				first.at = sent
				positions = append(positions, first)
			}
			positions = append(trim(positions, settled), logPosition{at: sent, last: last})
		}
		tick.WaitOr(ctx, jumped)
	}
}

// settled returns a time until now. What was sent to be committed before it is visible to polls.
// Commits may stall while reads go on; then it stays where it is, and the overlap grows.
func (c *Cache) settled(now time.Time) time.Time {
	if c.opts.Written == nil {
		return now
	}
	if at := c.opts.Written(); at.Before(now) {
		return at
	}
	return now
}

// forgetAll drops all states of timers and apps, because changes of them may have been missed. It
// also drops what never changes in one database: a copy that lacks the last commits may give the same
// version to another definition.
func (c *Cache) forgetAll() {
	c.Timers.reset()
	c.Inactivities.Purge()
	c.Backfills.reset()
	c.Apps.forgetAll()
	c.opts.Missed()
}

// errOtherLog means that an entry that was read is no longer in the change log. A database that
// took over without the last commits numbers its own entries anew, and what they change may be
// older than what is cached.
var errOtherLog = errors.New("the change log lacks an entry that it had")

// logPosition is the last entry known at a time.
type logPosition struct {
	at   time.Time
	last logEntry
	// before is a number before the last entry from which on later entries may become visible; 0:
	// there is none.
	before int64
}

// logEntry identifies an entry of the change log. The zero value is none.
type logEntry struct {
	seq, atMS, app int64
	timer          timer.ID
}

func entryOf(c *store.Change) logEntry {
	return logEntry{seq: c.Seq, atMS: c.AtMS, app: c.AppID, timer: c.State.ID}
}

// overlapStart returns the position after which to read. A negative number means the end of the log.
func overlapStart(positions []logPosition) logPosition {
	if len(positions) == 0 {
		return logPosition{last: logEntry{seq: -1}}
	}
	return positions[0]
}

// trim drops the positions older than the overlap before settled, except the newest of them. The
// caller has read the log since then, from the first of them on.
func trim(positions []logPosition, settled time.Time) []logPosition {
	for len(positions) > 1 && settled.Sub(positions[1].at) >= changesOverlap {
		positions = positions[1:]
	}
	return positions
}

// readChangesAfter applies the entries after one, and returns from which on the next poll of the log
// reads again, and the last one. It reads that one again, to notice another log.
func (c *Cache) readChangesAfter(
	ctx context.Context, from logPosition,
) (first logPosition, last logEntry, err error) {
	ctx, cancel := context.WithTimeout(ctx, changesTimeout)
	defer cancel()
	after := from.last.seq - 1
	if from.before > 0 {
		after = from.before
	}
	if from.last.seq < 0 {
		end, err := c.opts.Store.LastChange(ctx)
		if err != nil {
			return first, last, err //nolint:wrapcheck // the store says what failed
		}
		after = max(0, end-changesBefore)
	}
	check := from.last.seq > 0
	for first, last = from, from.last; ; {
		sent := time.Now()
		page, err := c.opts.Store.Changes(ctx, max(after, 0), changesPage)
		if err != nil {
			return first, last, err //nolint:wrapcheck // the store says what failed
		}
		more := len(page) == changesPage
		if check {
			known := func(c store.Change) bool { return entryOf(&c) == from.last }
			switch slices.IndexFunc(page, known) {
			case -1:
				return first, last, errOtherLog
			case 0:
				page = page[1:]
			}
			check = false
		}
		if first.last.seq < 0 && len(page) > 0 {
			i := recentIn(page)
			if first.before = after; i > 0 {
				first.before = page[i-1].Seq
			}
			first.last = entryOf(&page[i])
		}
		c.Apps.forget(c.Timers.apply(page)...)
		for i := range page {
			c.opts.Changed(&page[i].State, sent)
			c.opts.Logged(&page[i].State)
		}
		if len(page) > 0 {
			last = entryOf(&page[len(page)-1])
			after = last.seq
		}
		if !more {
			c.Timers.pruneAppChanges(max(from.last.seq, 0))
			// of an empty log
			first.last.seq, last.seq = max(first.last.seq, 0), max(last.seq, 0)
			return first, last, nil
		}
	}
}

// recentIn returns the index of the first entry that is hardly older than the last one. Earlier
// entries may be purged soon.
func recentIn(page []store.Change) int {
	from := page[len(page)-1].AtMS - 2*changesOverlap.Milliseconds()
	return slices.IndexFunc(page, func(c store.Change) bool { return c.AtMS >= from })
}

// TimerChanged handles a change notification: the timer is read at once instead of at the next poll.
func (c *Cache) TimerChanged(_ context.Context, m bus.Message) {
	var changed carillonv1.TimerChanged
	if proto.Unmarshal(m.Payload, &changed) != nil {
		return // the change log has it
	}
	select {
	case c.changed <- timer.ID(changed.GetTimerId()):
	default: // too many at once: the change log has them
	}
}

// readChanged reads the states of changed timers, in batches, until ctx ends.
func (c *Cache) readChanged(ctx context.Context) {
	for {
		var ids []timer.ID
		select {
		case id := <-c.changed:
			ids = append(ids, id)
		case <-ctx.Done():
			return
		}
		for more := true; more && len(ids) < store.MaxBatch; {
			select {
			case id := <-c.changed:
				ids = append(ids, id)
			default:
				more = false
			}
		}
		if ids = c.Timers.cached(ids); len(ids) == 0 {
			continue
		}
		call, cancel := context.WithTimeout(ctx, changesTimeout)
		sent := time.Now()
		states, err := c.Timers.Read(call, ids)
		if err != nil {
			c.opts.Logger.Debug().Err(err).Msg("changed timers not read")
		}
		cancel()
		for i := range states {
			c.opts.Changed(&states[i], sent)
		}
	}
}
