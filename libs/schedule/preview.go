package schedule

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/carillon-timer/carillon/libs/timer"
)

// MaxPreview is the largest count of Preview. MaxPreviewExcluded is how many excluded instants it
// lists.
const (
	MaxPreview         = 1000
	MaxPreviewExcluded = 1000
)

// Forecast is the result of Preview. Its JSON is part of the API.
type Forecast struct {
	Fires    []ForecastFire      `json:"fires"`
	Excluded []ForecastExclusion `json:"excluded"`
}

// ForecastFire is one due instant.
type ForecastFire struct {
	Due time.Time `json:"due"` // UTC
	// Local is the same instant on the wall clock of the schedule's zone, in RFC 3339; see
	// localText.
	Local string `json:"local"`
}

// ForecastExclusion is an instant of the schedule that is not due.
type ForecastExclusion struct {
	// Due of a missing local time uses the offset before the gap.
	Due    time.Time `json:"due"`
	Local  string    `json:"local"`
	Reason string    `json:"reason"`
}

// Preview returns the first count due instants after fromMS, computed by Next. It also returns the
// instants up to the last of these that a calendar, a gap or an overlap excluded.
//
// Instants outside the window are not listed. If there are fewer than count instants, exclusions
// are listed up to a year after the last. At most MaxPreviewExcluded are listed. MaxFires applies
// as if no fire had been created yet. Preview stops when ctx ends.
func Preview(
	ctx context.Context,
	s timer.Schedule,
	in Inputs,
	fromMS, anchorMS int64,
	count int,
) (*Forecast, error) {
	if count < 1 || count > MaxPreview {
		return nil, timer.Invalid(
			"count",
			fmt.Sprintf("expected a number from 1 to %d, found %d", MaxPreview, count),
		)
	}
	if err := Check(&s); err != nil {
		return nil, err
	}
	p, err := Parse(s, in)
	if err != nil {
		return nil, err
	}
	if s.MaxFires > 0 {
		count = int(min(int64(count), s.MaxFires))
	}
	out := &Forecast{Fires: []ForecastFire{}}
	last := fromMS
	for at := fromMS; len(out.Fires) < count; {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("previewing the schedule: %w", err)
		}
		if at = p.Next(at, anchorMS); at == timer.NeverMS {
			last = min(max(last, p.startMS)+yearMS, maxMS)
			break
		}
		last = at
		due := time.UnixMilli(at).UTC()
		out.Fires = append(out.Fires, ForecastFire{Due: due, Local: p.local(due)})
	}
	out.Excluded, err = p.exclusions(ctx, fromMS, last, anchorMS, MaxPreviewExcluded)
	out.Excluded = out.Excluded[:min(len(out.Excluded), MaxPreviewExcluded)]
	return out, err
}

const yearMS = 366 * secondsPerDay * 1000

// local formats an instant on the schedule's wall clock.
func (p *Parsed) local(at time.Time) string {
	return localText(at, p.zone.OffsetAt(at.Unix()))
}

// localText formats an instant with an offset. Some zones had offsets with seconds until 1972,
// which RFC 3339 cannot show. They are removed from offset and time, so that the text is the same
// instant.
func localText(at time.Time, offset int64) string {
	return at.In(time.FixedZone("", int(offset-offset%secondsPerMinute))).
		Format("2006-01-02T15:04:05.999Z07:00")
}

// exclusions lists the excluded instants in (fromMS, toMS], ascending. Those behind the first limit
// of them may be incomplete. An instant that is excluded for several reasons is listed with each.
func (p *Parsed) exclusions(
	ctx context.Context,
	fromMS, toMS, anchorMS int64,
	limit int,
) ([]ForecastExclusion, error) {
	out, err := p.excludedByCalendars(ctx, fromMS, toMS, anchorMS, limit)
	if err != nil {
		return nil, err
	}
	for _, part := range p.parts {
		if w, ok := part.(*wall); ok {
			out = append(out, p.overlaps(w, fromMS, toMS, limit)...)
			out = append(out, p.droppedByGap(w, fromMS, toMS, limit)...)
		}
	}
	slices.SortStableFunc(out, func(a, b ForecastExclusion) int {
		return cmp.Or(a.Due.Compare(b.Due), cmp.Compare(a.Reason, b.Reason))
	})
	return slices.Compact(out), nil // several specs may have the same instant
}

func (p *Parsed) exclusion(dueMS int64, reason string) ForecastExclusion {
	due := time.UnixMilli(dueMS).UTC()
	return ForecastExclusion{Due: due, Local: p.local(due), Reason: reason}
}

// excludedByCalendars lists the instants that calendars exclude, limit of them at the most. A fixed
// delay has at most one.
func (p *Parsed) excludedByCalendars(
	ctx context.Context,
	fromMS, toMS, anchorMS int64,
	limit int,
) ([]ForecastExclusion, error) {
	out := []ForecastExclusion{}
	if p.calendars == nil {
		return out, nil
	}
	next := func(after int64) int64 { return p.candidate(after, anchorMS) }
	if p.kind == timer.KindFixedDelay {
		next = func(after int64) int64 { return ifAfter(max(anchorMS+p.everyMS, p.startMS), after) }
	}
	for at := fromMS; len(out) < limit; {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("listing excluded instants: %w", err)
		}
		if at = next(at); at > toMS {
			return out, nil
		}
		second := floorDiv(at, 1000)
		open := p.calendars.NextAllowed(second)
		if open == second { // continue just before the next excluded instant
			at = max(at, millis(p.calendars.NextExcluded(second))-1)
			continue
		}
		out = append(
			out,
			p.exclusion(at, p.calendars.Why(second)+p.exclusionResult(at, second, open, anchorMS)),
		)
	}
	return out, nil
}

// exclusionResult describes what happened to an instant that a calendar excludes.
func (p *Parsed) exclusionResult(dueMS, second, open, anchorMS int64) string {
	var to int64
	switch {
	case p.excluded == timer.ExcludedNext && p.kind == timer.KindFixedDelay:
		to = p.moveTo(dueMS, open)
	case p.excluded == timer.ExcludedNext, p.excluded == timer.ExcludedPrevious:
		to = p.move(dueMS, p.stretchStart(second), open, anchorMS)
	default:
		return ""
	}
	moved := p.moved(second, open, anchorMS)
	switch _, found := slices.BinarySearch(moved, to); {
	case p.kind == timer.KindFixedDelay && to < p.endMS:
	case to == timer.NeverMS:
		return "; there is no allowed instant to move it to"
	case to < p.startMS || to >= p.endMS:
		return "; moved out of the window, so skipped"
	case !found:
		return fmt.Sprintf(
			"; skipped, as only %d instants of one excluded stretch are moved",
			MaxMoved,
		)
	}
	return "; moved to " + p.local(time.UnixMilli(to))
}
