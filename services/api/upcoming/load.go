package upcoming

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/carillon-timer/carillon/libs/expansion"
	"github.com/carillon-timer/carillon/libs/schedule"
	"github.com/carillon-timer/carillon/libs/timer"
)

// Load counts the calls that are planned in each minute of a range, by the schedules of timers. It
// computes at most about twice Budget instants: timers that are due more often than their share
// allows are sampled.
type Load struct {
	FromMS, ToMS int64
	Budget       int // at least 1: instants to compute

	Minutes     []int64 // planned calls by minute, from the minute of FromMS on
	Timers      int     // that are counted
	Sampled     int     // of them, those whose counts are estimated
	FixedDelays int     // not counted: when they are due depends on their calls
	exhausted   int
	Exhausted   int // not counted: too many timers whose fires, limited by max_fires, all exist
	Unreadable  int // not counted: their schedules cannot be read
}

// maxExhausted is how many timers are looked up in the store whose fires all exist.
const maxExhausted = 50

// dense is a timer that is due more often than its share allows.
type dense struct {
	t *timer.Timer
	p *schedule.Parsed
	// perMinute is how often it was due within its share.
	perMinute float64
}

// Add counts timers into l. It is called once. Each timer has an equal share of the budget. What those
// leave that need less goes to the others, and some of their minutes are sampled.
func (s *Finder) Add(ctx context.Context, l *Load, timers []timer.Timer) error {
	first := timer.MinuteOf(l.FromMS)
	l.Minutes = make([]int64, timer.MinuteOf(l.ToMS-1)-first+1)
	if len(timers) == 0 {
		return nil
	}
	share := max(l.Budget/len(timers), 1)
	left := l.Budget
	var rest []dense
	for i := range timers {
		if err := ctx.Err(); err != nil {
			return err //nolint:wrapcheck // the caller knows what it was doing
		}
		t := &timers[i]
		if t.Definition.Schedule.Kind == timer.KindFixedDelay {
			l.FixedDelays++
			continue
		}
		p, err := schedule.Parse(t.Definition.Schedule, Inputs(t))
		if err != nil {
			l.Unreadable++ // the migrator tells why
			continue
		}
		if isExhausted(t) {
			if err := s.addExhausted(ctx, l, t, p); err != nil {
				return err
			}
			continue
		}
		l.Timers++
		jitter := time.Duration(t.Definition.Schedule.Jitter).Milliseconds()
		dues, more, err := dues(ctx, t, p, l.FromMS-jitter, l.ToMS, share)
		if err != nil {
			return err
		}
		if !more {
			left -= len(dues)
			l.count(t, dues, 0)
			continue
		}
		span := float64(dues[len(dues)-1]-(l.FromMS-jitter)+1) / float64(timer.MinuteMS)
		rest = append(rest, dense{t, p, float64(len(dues)) / span})
	}
	for i := range rest {
		n, err := l.sample(ctx, &rest[i], max(left, 0)/(len(rest)-i))
		if err != nil {
			return err
		}
		left -= n
	}
	return nil
}

// sample counts a timer in one minute of each block of minutes, for all of the block. It returns how
// many instants it computed. The minute is a random one, but the same for each request: at equal
// distances, a schedule that is due as regularly would be counted always or never.
func (l *Load) sample(ctx context.Context, d *dense, budget int) (computed int, err error) {
	jitter := time.Duration(d.t.Definition.Schedule.Jitter).Milliseconds()
	fromMS := l.FromMS - jitter
	first, last := timer.MinuteOf(fromMS), timer.MinuteOf(l.ToMS-1)
	affordable := int(float64(budget) / (d.perMinute + searchCost))
	stride := max((last-first+int64(affordable))/int64(max(affordable, 1)), 1)
	if stride > 1 {
		l.Sampled++
	}
	most := d.t.Definition.Schedule.MaxFires
	allowed := float64(most - d.t.FiresCreated) // beyond what is expanded
	//nolint:gosec // ids are not negative, and this is no secret
	random := rand.New(rand.NewPCG(uint64(d.t.ID), 0))
	block := int64(1) // the first minute may lie in the range only in part
	for begin := first; begin <= last; begin += block {
		if err := ctx.Err(); err != nil {
			return 0, err //nolint:wrapcheck // the caller knows what it was doing
		}
		if begin > first {
			block = min(stride, last-begin+1)
		}
		at := begin + random.Int64N(block)
		if most > 0 && at*timer.MinuteMS >= d.t.NextDueMS {
			if allowed <= 0 {
				break
			}
			allowed -= float64(block) * d.perMinute
		}
		dues, _, err := dues(ctx, d.t, d.p, max(at*timer.MinuteMS, fromMS),
			min((at+1)*timer.MinuteMS, l.ToMS), maxPerMinute)
		if err != nil {
			return 0, err
		}
		for minute := begin; minute < begin+block; minute++ {
			l.count(d.t, dues, minute-at)
		}
		computed += len(dues)
	}
	return computed, nil
}

// searchCost is what it costs to look for instants in a minute that has none, in instants.
const searchCost = 0.25

// maxPerMinute is above the number of instants that a schedule has in a minute.
const maxPerMinute = 60_000

// isExhausted returns whether all fires that max_fires allows exist. The schedule alone does not
// tell which is the last.
func isExhausted(t *timer.Timer) bool {
	most := t.Definition.Schedule.MaxFires
	return most > 0 && t.FiresCreated >= most && t.NextDueMS == timer.NeverMS
}

// addExhausted counts the open fires of a timer that gets no more.
func (s *Finder) addExhausted(
	ctx context.Context,
	l *Load,
	t *timer.Timer,
	p *schedule.Parsed,
) error {
	if l.exhausted++; l.exhausted > maxExhausted {
		l.Exhausted++
		return nil
	}
	// Fires exist about an hour ahead.
	until := min(l.ToMS, l.FromMS+2*time.Hour.Milliseconds())
	dues, _, err := dues(ctx, t, p, l.FromMS, until, maxPerMinute)
	if err != nil {
		return err
	}
	dues, err = s.limitToOpen(ctx, t, dues)
	if err != nil {
		return err
	}
	l.Timers++
	l.count(t, dues, 0)
	return nil
}

// count counts instants, each so many minutes later than it is due. A call is planned later, too, by
// the timer's jitter.
func (l *Load) count(t *timer.Timer, dues []int64, later int64) {
	first := timer.MinuteOf(l.FromMS)
	for _, due := range dues {
		planned := due + schedule.Jitter(t.ID, due, t.Definition.Schedule.Jitter)
		planned += later * timer.MinuteMS
		if at := timer.MinuteOf(
			planned,
		) - first; planned >= l.FromMS &&
			at < int64(len(l.Minutes)) {
			l.Minutes[at]++
		}
	}
}

// checkEvery is after how many instants dues looks whether somebody still waits. Instants under
// calendars of many times take some 10 µs each.
const checkEvery = 256

// dues returns up to limit due instants of a timer in a range, and whether there are more.
func dues(
	ctx context.Context,
	t *timer.Timer,
	p *schedule.Parsed,
	fromMS, toMS int64,
	limit int,
) (found []int64, more bool, err error) {
	afterMS, ok := startOf(t, fromMS-1)
	if !ok {
		return nil, false, nil
	}
	if t.Definition.Schedule.Kind.OneShot() {
		due := nextOneShot(t, p, afterMS)
		if waitsForEnd(t) {
			due = t.PausedUntilMS
		}
		if due >= fromMS && due < toMS {
			found = append(found, due)
		}
		return found, false, nil
	}
	most := t.Definition.Schedule.MaxFires
	left := most - t.FiresCreated // beyond what is expanded
	anchor := expansion.Anchor(t)
	for at := p.Next(afterMS, anchor); at < toMS; at = p.Next(at, anchor) {
		if most > 0 && at >= t.NextDueMS {
			if left <= 0 {
				break
			}
			left--
		}
		if len(found) == limit {
			return found, true, nil
		}
		if found = append(found, at); len(found)%checkEvery == 0 && ctx.Err() != nil {
			return nil, false, ctx.Err() //nolint:wrapcheck // the caller knows what it was doing
		}
	}
	return found, false, nil
}

// waitsForEnd reports whether the fire of a one-shot was due in the present pause, which has an end:
// so it was not called, and is then.
func waitsForEnd(t *timer.Timer) bool {
	return t.Status == timer.StatusPaused && t.NextDueMS == timer.NeverMS &&
		t.LastDueMS >= t.InactiveSinceMS && t.LastDueMS < t.PausedUntilMS
}
