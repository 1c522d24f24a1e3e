package explain

import (
	"fmt"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// maxTold is how many open fires holds tell of one by one. The oldest come first: later ones may
// wait for them.
const maxTold = 3

// holdsOfOpen tells of open fires that are due by now, of the schedule and of requests. Those of
// listed are told of already. It needs no read of its own, and notes the owners of the fires.
func (f *Facts) holdsOfOpen(
	page *store.OpenFiresPage, sessions []store.Session, listed []Answer,
) (out []Hold) {
	told := map[timer.FireID]bool{}
	for i := range listed {
		if o := listed[i].Open; o != nil {
			told[o.FireID] = true
		}
	}
	alive, others := aliveOf(sessions), 0
	for i := range page.Fires {
		o := &page.Fires[i]
		switch {
		case told[o.FireID]:
			continue
		case len(out) == maxTold:
			others++
			continue
		}
		f.Owners[o.Owner] = alive[o.Owner]
		a := f.openAt(o)
		out = append(out, Hold{HoldOpenFire, fmt.Sprintf("The fire %s, due at %s, is open (%s): %s",
			o.FireID, instant(o.DueMS), a.Code, a.Text), &a})
	}
	least := ""
	if page.Next != (store.OpenFiresPosition{}) { // it does not have all of them
		least = "at least "
	}
	if others > 0 {
		verb := "are"
		if others == 1 {
			verb = "is"
		}
		out = append(out, Hold{Code: HoldMoreOpen, Text: fmt.Sprintf(
			"Of the timer %s%s more that came due %s open.",
			least,
			count(int64(others), "fire"),
			verb,
		)})
	}
	return out
}

// openAt explains an open fire of any instant. The versions are those of the range only: where that
// in force at the instant is not among them, nothing is judged by one.
func (f *Facts) openAt(o *timer.Fire) Answer {
	if !f.hasVersion(o.DueMS) {
		without := *f
		without.Versions = nil
		f = &without
	}
	return f.open(f.judge(o.DueMS), o)
}

// hasVersion reports whether the version that was in force at an instant is known.
func (f *Facts) hasVersion(atMS int64) bool {
	if len(f.Versions) == 0 {
		return false
	}
	first, last := &f.Versions[0], &f.Versions[len(f.Versions)-1]
	return (first.N == 1 || first.SinceMS < atMS) && atMS <= last.untilMS
}
