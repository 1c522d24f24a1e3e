package upcoming

import (
	"context"
	"time"

	"github.com/carillon-timer/carillon/libs/expansion"
	"github.com/carillon-timer/carillon/libs/schedule"
	"github.com/carillon-timer/carillon/libs/timer"
)

// Load counts the calls that are planned in each minute of a range, by the schedules of timers. It
// computes at most about Budget instants: timers that are due more often than their share allows
// are sampled.
type Load struct {
	FromMS, ToMS int64
	Budget       int // at least 1: instants to compute

	Minutes     []int64 // planned calls by minute, from the minute of FromMS on
	Timers      int     // that are counted
	Sampled     int     // of them, those whose counts are estimated
	FixedDelays int     // not counted: when they are due depends on their calls
	exhausted   int
	Exhausted   int // not counted: too many timers whose fires, limited by max_fires, all exist
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

// Add counts timers into l. It is called once. Each timer has an equal share of the budget. What is left
// goes to those that need more, and their minutes are sampled at equal distances.
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
			continue // the migrator tells why
		}
		if isExhausted(t) {
			if err := s.addExhausted(ctx, l, t, p); err != nil {
				return err
			}
			continue
		}
		l.Timers++
		jitter := time.Duration(t.Definition.Schedule.Jitter).Milliseconds()
		dues, more := dues(t, p, l.FromMS-jitter, l.ToMS, share)
		left -= len(dues)
		if !more {
			l.count(t, dues, 1)
			continue
		}
		span := float64(dues[len(dues)-1]-l.FromMS+1) / float64(timer.MinuteMS)
		rest = append(rest, dense{t, p, float64(len(dues)) / span})
	}
	for i := range rest {
		n := l.sample(&rest[i], max(left, 0)/(len(rest)-i))
		left -= n
	}
	return ctx.Err() //nolint:wrapcheck // as above
}

// sample counts a timer in some minutes, and each of them for those that follow it. It returns how
// many instants it computed.
func (l *Load) sample(d *dense, budget int) (computed int) {
	minutes := len(l.Minutes)
	affordable := int(float64(budget) / max(d.perMinute, 1))
	stride := 1
	if affordable < minutes {
		stride = (minutes + max(affordable, 1) - 1) / max(affordable, 1)
	}
	if stride > 1 {
		l.Sampled++
	}
	first := timer.MinuteOf(l.FromMS)
	most := d.t.Definition.Schedule.MaxFires
	allowed := most - d.t.FiresCreated // beyond what is expanded
	for at := 0; at < minutes; at += stride {
		begin := max((first+int64(at))*timer.MinuteMS, l.FromMS)
		end := min((first+int64(at)+1)*timer.MinuteMS, l.ToMS)
		if most > 0 && begin >= d.t.NextDueMS {
			if allowed <= 0 {
				break
			}
			allowed -= int64(stride) * int64(d.perMinute)
		}
		dues, _ := dues(d.t, d.p, begin, end, maxPerMinute)
		l.count(d.t, dues, min(stride, minutes-at))
		computed += len(dues)
	}
	return computed
}

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
	dues, _ := dues(t, p, l.FromMS, until, maxPerMinute)
	dues, err := s.limitToOpen(ctx, t, dues)
	if err != nil {
		return err
	}
	l.Timers++
	l.count(t, dues, 1)
	return nil
}

// count counts instants, each for so many minutes from its own on. A call is planned later than it
// is due by the timer's jitter.
func (l *Load) count(t *timer.Timer, dues []int64, minutes int) {
	first := timer.MinuteOf(l.FromMS)
	for _, due := range dues {
		planned := due + schedule.Jitter(t.ID, due, t.Definition.Schedule.Jitter)
		if planned < l.FromMS {
			continue
		}
		at := int(timer.MinuteOf(planned) - first)
		for i := at; i < min(at+minutes, len(l.Minutes)); i++ {
			l.Minutes[i]++
		}
	}
}

// dues returns up to limit due instants of a timer in a range, and whether there are more.
func dues(
	t *timer.Timer,
	p *schedule.Parsed,
	fromMS, toMS int64,
	limit int,
) (found []int64, more bool) {
	afterMS, ok := startOf(t, fromMS-1)
	if !ok {
		return nil, false
	}
	if t.Definition.Schedule.Kind.OneShot() {
		if due := nextOneShot(t, p, afterMS); due >= fromMS && due < toMS {
			found = append(found, due)
		}
		return found, false
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
			return found, true
		}
		found = append(found, at)
	}
	return found, false
}
