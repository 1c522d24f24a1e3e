package explain

import (
	"context"
	"slices"

	"github.com/carillon-timer/carillon/libs/timer"
)

// delayed are instants of a fixed delay near the one that is explained. Its schedule alone has
// none: each fire is due a delay after the end of the one before.
type delayed struct {
	dues     []int64 // ascending
	complete bool    // dues has all instants from the first of them on that are known by now
}

// readDelayed finds the instants of a fixed delay's outcomes and of its open fire, which is the
// latest. Those behind the instant are known if there are few.
func (f *Facts) readDelayed(ctx context.Context, s Store) error {
	isDelay := func(v Version) bool { return v.Definition.Schedule.Kind == timer.KindFixedDelay }
	if f.ToMS != f.FromMS+1 || !slices.ContainsFunc(f.Versions, isDelay) {
		return nil
	}
	const latest = 20 // there may be run-nows among them
	found, err := s.History(ctx, f.App, f.ID, timer.FireID{}, latest)
	if err != nil {
		return err //nolint:wrapcheck // the store says what it was doing
	}
	d := &f.delayed
	d.complete = len(found) < latest
	for _, outcomes := range [][]timer.Outcome{found, f.Outcomes} {
		for i := range outcomes {
			if o := &outcomes[i]; o.Series == 0 {
				d.dues = append(d.dues, o.DueMS)
			}
		}
	}
	d.complete = d.complete || len(found) > 0 && found[len(found)-1].DueMS <= f.FromMS
	if f.Timer != nil && f.Timer.Status == timer.StatusActive && f.Timer.LastDueMS > 0 {
		d.dues = append(d.dues, f.Timer.LastDueMS)
	}
	slices.Sort(d.dues)
	return nil
}

// before returns the last known instant before atMS, or timer.NeverMS.
func (d *delayed) before(atMS int64) int64 {
	if n, _ := slices.BinarySearch(d.dues, atMS); n > 0 {
		return d.dues[n-1]
	}
	return timer.NeverMS
}

// after returns the first instant after atMS, or timer.NeverMS if it is not known.
func (d *delayed) after(atMS int64) int64 {
	n, _ := slices.BinarySearch(d.dues, atMS+1)
	if d.complete && n < len(d.dues) {
		return d.dues[n]
	}
	return timer.NeverMS
}

// text says why a fixed delay has no fire at an instant.
func (d *delayed) text(atMS, nowMS int64) string {
	const counts = "a fixed delay counts from the end of the last call."
	switch {
	case atMS <= nowMS:
		return "No fire of the timer was due then: " + counts
	case d.after(atMS) != timer.NeverMS:
		return "No fire of the timer is due then: " + counts
	}
	return "Whether a fire of the timer is due then is not known yet: " + counts
}
