package explain

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// HoldCode is what holds coming fires of a timer back now, or may do so.
type HoldCode string

// The codes of holds.
const (
	HoldPaused         HoldCode = "timer_paused"
	HoldInactive       HoldCode = "timer_inactive"
	HoldMaxFires       HoldCode = "max_fires_reached"
	HoldFrozen         HoldCode = "app_frozen"
	HoldLimited        HoldCode = "app_limited"
	HoldOpenFire       HoldCode = "open_fire"
	HoldMoreOpen       HoldCode = "more_open_fires"
	HoldWaitsForLimits HoldCode = "waits_for_limits"
	HoldBreakerOpen    HoldCode = "breaker_open"
	HoldBreakerUnknown HoldCode = "breaker_unknown"
	HoldTurn           HoldCode = "waits_for_turn"
	HoldNoExecutor     HoldCode = "no_executor"
	HoldBehind         HoldCode = "executors_behind"
	HoldBacklog        HoldCode = "backlog"
)

// HoldMeaning is what the code of a hold means.
type HoldMeaning struct {
	Code HoldCode
	Text string
}

// HoldMeanings returns every code of a hold with its meaning, for documents.
func HoldMeanings() []HoldMeaning {
	return []HoldMeaning{
		{HoldPaused, "the timer is paused"},
		{HoldInactive, "the timer is not active"},
		{HoldMaxFires, "the timer has had every fire that max_fires allows"},
		{HoldFrozen, "the app is frozen, so its fires are not called"},
		{HoldLimited, "the app has limits; only executors know how much of them is used"},
		{
			HoldOpenFire,
			"a fire of the timer came due and has not finished; the oldest three are told of",
		},
		{HoldMoreOpen, "more fires of the timer came due and have not finished"},
		{HoldWaitsForLimits, "fires of the timer wait for the limits of the app"},
		{HoldBreakerOpen, "fires of the timer wait for the breaker of their endpoint"},
		{
			HoldBreakerUnknown,
			"due fires are open, none of which is known to wait for a breaker; only executors know whether one is open",
		},
		{HoldTurn, "fires of the timer wait for an earlier one"},
		{HoldNoExecutor, "no executor is alive"},
		{HoldBehind, "executors are behind with their tasks"},
		{HoldBacklog, "open fires are overdue, of any app"},
	}
}

// Hold is what holds coming fires of a timer back now, or may do so.
type Hold struct {
	Code HoldCode
	Text string // one sentence; of an open fire those of its answer, too
	// Answer explains the fire of HoldOpenFire, as a question about its instant does. Else nil.
	Answer *Answer
}

// HoldStore is the part of the store that tells what holds fires back.
type HoldStore interface {
	App(ctx context.Context, name string) (store.App, error)
	LiveSessions(ctx context.Context) ([]store.Session, error)
	OldestOpen(ctx context.Context) (int64, error)
	OpenFires(
		ctx context.Context, app string, id timer.ID, q store.OpenFiresQuery,
	) (store.OpenFiresPage, error)
}

const (
	// holdScan bounds the open fires of all timers that are searched for those of one.
	holdScan  = 5000
	holdFires = 500
	// behindMS is the age of a task at its claim from which an executor counts as behind.
	behindMS = 2000
)

// Holds returns whether the timer itself holds fires of the answers back at NowMS. ReadHolds has the
// rest. It holds no fire of a request.
func (f *Facts) Holds(answers []Answer) []Hold {
	if len(answers) > 0 && !slices.ContainsFunc(answers, ofSchedule) {
		return nil
	}
	period, ok := f.inactivity(f.NowMS)
	switch {
	case f.State.Status == timer.StatusDeleted:
		return nil
	case ok && period.Status == timer.StatusPaused:
		return []Hold{{Code: HoldPaused, Text: f.inactivityText(period)}}
	case ok:
		return []Hold{{Code: HoldInactive, Text: f.inactivityText(period)}}
	case f.State.AnchorMS == 0 && f.State.Status != timer.StatusActive:
		return []Hold{{Code: HoldInactive, Text: f.neverActiveText()}}
	}
	v, _ := f.version(f.NowMS)
	if v == nil {
		return nil
	}
	if last := f.lastOf(v); last.made && last.atMS != timer.NeverMS && last.atMS <= f.NowMS {
		return []Hold{
			{
				Code: HoldMaxFires,
				Text: fmt.Sprintf(
					"The timer has had its %s (max_fires). More come only if one is skipped or an "+
						"edit raises it.",
					count(v.Definition.Schedule.MaxFires, "fire"),
				),
			},
		}
	}
	return nil
}

// ofSchedule reports whether an answer is of an instant of the schedule that has no outcome.
func ofSchedule(a Answer) bool {
	return a.Outcome == nil && (a.Open == nil || a.Open.Series == 0)
}

// ReadHolds returns what holds coming fires of the timer back at NowMS, and which due ones are open
// that are not among the listed answers. It asks the store only: what executors have in memory is
// not known, and said to be so. The reads are not one snapshot.
func (f *Facts) ReadHolds(ctx context.Context, s HoldStore, listed []Answer) ([]Hold, error) {
	var out []Hold
	a, err := s.App(ctx, f.App)
	if err != nil {
		return nil, err //nolint:wrapcheck // the store says what it was doing
	}
	out = append(out, holdsOfApp(&a)...)
	page, err := s.OpenFires(ctx, f.App, f.ID, store.OpenFiresQuery{
		UntilMS: f.NowMS, ScanLimit: holdScan, Limit: holdFires,
	})
	if err != nil {
		return nil, err //nolint:wrapcheck // the store says what it was doing
	}
	sessions, err := s.LiveSessions(ctx)
	if err != nil {
		return nil, err //nolint:wrapcheck // the store says what it was doing
	}
	out = append(out, f.holdsOfOpen(&page, sessions, listed)...)
	out = append(out, holdsOfFires(&page, sessions, f.NowMS)...)
	out = append(out, holdsOfExecutors(sessions)...)
	oldest, err := s.OldestOpen(ctx)
	if err != nil {
		return nil, err //nolint:wrapcheck // the store says what it was doing
	}
	if late := f.NowMS - oldest; oldest != 0 && late >= store.OverdueAfter.Milliseconds() {
		out = append(out, Hold{Code: HoldBacklog, Text: fmt.Sprintf(
			"The oldest open fire of all apps is %s past its run time.", duration(late))})
	}
	return out, nil
}

func holdsOfApp(a *store.App) (out []Hold) {
	if a.Frozen {
		text := "The app is frozen since " + instant(a.FrozenMS)
		if a.Reason != "" {
			text += " (" + a.Reason + ")"
		}
		out = append(out, Hold{Code: HoldFrozen, Text: text + "; the audit trail has by whom."})
	}
	var limits []string
	if a.Settings.Rate > 0 {
		calls := "calls"
		if a.Settings.Rate == 1 {
			calls = "call"
		}
		limits = append(limits, fmt.Sprintf("%g %s a second", a.Settings.Rate, calls))
	}
	if a.Settings.Concurrent > 0 {
		limits = append(limits, count(int64(a.Settings.Concurrent), "call")+" at once")
	}
	if len(limits) > 0 {
		out = append(out, Hold{Code: HoldLimited, Text: "The app may have at most " +
			strings.Join(limits, " and ") + "; only executors know how much of that is used."})
	}
	return out
}

// waiting are the timer's open fires that are due by now, by what they wait for.
type waiting struct {
	n       map[timer.Wait]int
	sinceMS map[timer.Wait]int64 // of the first
	due     bool                 // one is with an executor, or is to be: it may wait there
	unknown bool                 // a live executor has one, which may wait in its memory
}

// aliveOf returns the owners of live sessions.
func aliveOf(sessions []store.Session) Owners {
	alive := Owners{}
	for i := range sessions {
		alive[sessions[i].ID] = true
	}
	return alive
}

func waitingOf(fires []timer.Fire, sessions []store.Session, nowMS int64) waiting {
	w := waiting{n: map[timer.Wait]int{}, sinceMS: map[timer.Wait]int64{}}
	alive := aliveOf(sessions)
	for i := range fires {
		f := &fires[i]
		if f.RunAtMS == timer.DeferredMS || f.State == timer.FireAccepted {
			continue
		}
		due := f.RunAtMS <= nowMS
		claimed := mayBeCalled(f, nowMS) && f.Owner != 0 && alive[f.Owner]
		w.due = w.due || due
		switch {
		case claimed: // it may be called by now, or wait in memory
			w.unknown = true
			continue
		case f.WaitingSinceMS == 0, f.WaitedFor == timer.WaitTurn && f.State != timer.FireWaiting:
			continue // the latter's turn has come
		}
		w.n[f.WaitedFor]++
		if since := w.sinceMS[f.WaitedFor]; since == 0 || f.WaitingSinceMS < since {
			w.sinceMS[f.WaitedFor] = f.WaitingSinceMS
		}
	}
	return w
}

// holdsOfFires tells what the timer's open fires wait for that are due by now.
func holdsOfFires(
	page *store.OpenFiresPage, sessions []store.Session, nowMS int64,
) (out []Hold) {
	all := waitingOf(page.Fires, sessions, nowMS)
	more := page.Next != (store.OpenFiresPosition{})
	for _, c := range []struct {
		wait timer.Wait
		code HoldCode
	}{
		{timer.WaitLimits, HoldWaitsForLimits},
		{timer.WaitBreaker, HoldBreakerOpen},
		{timer.WaitTurn, HoldTurn},
	} {
		n := all.n[c.wait]
		switch {
		case n > 0:
			verb, least := "wait", ""
			if n == 1 {
				verb = "waits"
			}
			if more || all.unknown && c.wait != timer.WaitTurn {
				least = "at least "
			}
			fires, since := count(int64(n), "fire"), instant(all.sinceMS[c.wait])
			out = append(out, Hold{Code: c.code, Text: fmt.Sprintf(
				"Of the timer %s%s %s %s, the first since %s.",
				least, fires, verb, waitText(c.wait), since,
			)})
		case c.wait == timer.WaitBreaker && (all.due || more):
			text := "No fire of the timer is known to wait for the breaker of its endpoint: only " +
				"executors know whether it is open."
			if more {
				text = "Only executors know whether the breaker of the endpoint is open, and there " +
					"are too many open fires to search them all."
			}
			out = append(out, Hold{Code: HoldBreakerUnknown, Text: text})
		}
	}
	return out
}

func holdsOfExecutors(sessions []store.Session) []Hold {
	executors, full := 0, 0
	var oldestMS int64
	for i := range sessions {
		s := &sessions[i]
		if s.Kind != store.ExecutorSession {
			continue
		}
		executors++
		oldestMS = max(oldestMS, s.Load.OldestTaskMS)
		if s.Load.InflightFull {
			full++
		}
	}
	switch {
	case executors == 0:
		return []Hold{{Code: HoldNoExecutor, Text: "No executor is alive, so no fire is called."}}
	case full > 0:
		verb := "have"
		if full == 1 {
			verb = "has"
		}
		return []Hold{
			{
				Code: HoldBehind,
				Text: fmt.Sprintf(
					"Of %s alive, %d %s no room for more fires.",
					count(int64(executors), "executor"),
					full,
					verb,
				),
			},
		}
	case oldestMS >= behindMS:
		return []Hold{{Code: HoldBehind, Text: fmt.Sprintf(
			"Tasks wait up to %s until executors claim them.",
			(time.Duration(oldestMS) * time.Millisecond).String())}}
	}
	return nil
}
