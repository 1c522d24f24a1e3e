package history

import (
	"context"
	"fmt"
	"time"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/api/input"
	"github.com/carillon-timer/carillon/services/api/upcoming"
	"github.com/carillon-timer/carillon/services/api/v2/param"
)

// Limits of what one request computes.
const (
	maxTimers   = 10_000
	maxInstants = 200_000
	timersPage  = 500     // timers read at once
	pageBodies  = 4 << 20 // bytes of their bodies; a timer may have some megabytes
)

type upcomingInput struct {
	param.PathAppParam
	Hours int `query:"hours" default:"24" minimum:"1" maximum:"48" doc:"How far to look ahead."`
}

type upcomingOutput struct{ Body upcomingBody }

type upcomingBody struct {
	From    string           `json:"from" format:"date-time" doc:"Now."`
	To      string           `json:"to" format:"date-time"`
	Total   int64            `json:"total" doc:"Calls planned in the range."`
	Peak    *upcomingMinute  `json:"peak,omitempty" doc:"The first of the minutes with the most."`
	Minutes []upcomingMinute `json:"minutes" nullable:"false" doc:"In order of time, without those in which nothing is planned. The first and the last may lie in the range only in part."`
	Timers  int              `json:"timers" doc:"Timers that are counted."`
	Exact   bool             `json:"exact" doc:"Every instant of these timers was computed, and every timer with a schedule is counted."`
	Sampled int              `json:"sampled_timers" doc:"Timers that are due so often that only some of their minutes were computed."`
	LeftOut leftOutBody      `json:"left_out" doc:"What is not counted. Retries, deferred fires, run-nows, backfills and redrives never are, but one-shots are that wait for the end of a pause."`
}

type leftOutBody struct {
	FixedDelays int    `json:"fixed_delays" doc:"Timers that are due so long after the end of their fire before."`
	MaxFires    int    `json:"max_fires" doc:"Timers that have had nearly all of their fires."`
	MoreTimers  bool   `json:"more_timers" doc:"The app has too many active and paused timers to examine each. The active ones are counted that are due in the range, up to 10000, and then paused ones up to that number. Not counted are one-shots that are due already and wait for their jitter, and fixed delays of which a call runs."`
	DueAfter    string `json:"due_after,omitempty" format:"date-time" doc:"The app has more timers that are due in the range: those are not counted whose next call is due after this instant, and some that are due several times an hour."`
}

type upcomingMinute struct {
	Begin string `json:"begin" format:"date-time"`
	Count int64  `json:"count"`
}

// upcoming computes the load from the schedules, as lists of upcoming fires do. It does not depend
// on which fires exist, so open fires need not be read.
func (s *Resource) upcoming(ctx context.Context, in *upcomingInput) (*upcomingOutput, error) {
	if err := s.Auth.AuthorizeApp(ctx, in.App); err != nil {
		return nil, err //nolint:wrapcheck // it is the answer
	}
	now := s.Now()
	l := &upcoming.Load{
		FromMS: now.UnixMilli(),
		ToMS:   now.Add(time.Duration(in.Hours) * time.Hour).UnixMilli(),
		Budget: maxInstants,
	}
	out := &upcomingOutput{}
	err := s.count(ctx, func() error {
		timers, err := s.scheduled(ctx, in.App, l, &out.Body.LeftOut)
		if err != nil {
			return err
		}
		return s.Upcoming.Add(ctx, l, timers) //nolint:wrapcheck // it says what it was doing
	})
	if err != nil {
		return nil, err
	}
	out.Body.show(l)
	return out, nil
}

// scheduled returns up to s.maxTimers of an app that are due some time. Of an app with more active
// ones it returns those that are due in the range of l, the first ones first: the others may be
// one-shots that were called long ago.
func (s *Resource) scheduled(
	ctx context.Context,
	app string,
	l *upcoming.Load,
	left *leftOutBody,
) (found []timer.Timer, err error) {
	active := store.SearchQuery{
		Filter:  store.Filter{App: app, Status: timer.StatusActive},
		Limit:   s.maxTimers + 1,
		NextDue: s.Upcoming.NextPlanned,
	}
	n, err := s.Store.Count(ctx, active)
	if err != nil {
		return nil, fmt.Errorf("counting timers: %w", err)
	}
	if left.MoreTimers = n.Minimum || n.N > s.maxTimers; left.MoreTimers {
		active.DueFromMS, active.DueToMS, active.Sort = l.FromMS, l.ToMS, store.SortNextDue
	}
	found, more, err := s.append(ctx, nil, active)
	if err != nil {
		return nil, err
	}
	if more && left.MoreTimers {
		last := &found[len(found)-1]
		due, err := s.Upcoming.NextPlanned(ctx, last)
		if err != nil {
			return nil, fmt.Errorf("reading the last timer: %w", err)
		}
		if due == timer.NeverMS { // its instant came meanwhile
			due = s.Now().UnixMilli()
		}
		left.DueAfter = input.Due(
			max(due, last.LastDueMS),
		) // the order is by the last fire that exists
	}
	left.MoreTimers = left.MoreTimers || more
	paused := store.SearchQuery{Filter: store.Filter{App: app, Status: timer.StatusPaused}}
	found, more, err = s.append(ctx, found, paused)
	left.MoreTimers = left.MoreTimers || more
	return found, err
}

// append adds the timers of a search to found, up to s.maxTimers in all.
func (s *Resource) append(
	ctx context.Context,
	found []timer.Timer,
	q store.SearchQuery,
) (all []timer.Timer, more bool, err error) {
	q.Limit, q.MaxBodyBytes = timersPage, pageBodies
	seen := make(map[timer.ID]bool) // a timer that is expanded meanwhile moves to a later page
	for {
		page, err := s.Store.Search(ctx, q)
		if err != nil {
			return nil, false, fmt.Errorf("listing timers: %w", err)
		}
		for i := range page.Timers {
			t := &page.Timers[i]
			if seen[t.ID] {
				continue
			}
			seen[t.ID] = true
			// The targets of all would take gigabytes.
			t.Definition = timer.Definition{Schedule: t.Definition.Schedule}
			found = append(found, *t)
		}
		if len(found) > s.maxTimers {
			return found[:s.maxTimers], true, nil
		}
		if !page.More {
			return found, false, nil
		}
		q.After = page.Next
	}
}

// show converts what was counted.
func (b *upcomingBody) show(l *upcoming.Load) {
	b.From, b.To = input.Due(l.FromMS), input.Due(l.ToMS)
	b.Timers, b.Sampled = l.Timers, l.Sampled
	b.LeftOut.FixedDelays, b.LeftOut.MaxFires = l.FixedDelays, l.Exhausted
	b.Exact = l.Sampled+l.FixedDelays+l.Exhausted+l.Unreadable == 0 && !b.LeftOut.MoreTimers
	b.Minutes = []upcomingMinute{}
	first := timer.MinuteOf(l.FromMS)
	for i, n := range l.Minutes {
		if n == 0 {
			continue
		}
		m := upcomingMinute{Begin: input.Due((first + int64(i)) * timer.MinuteMS), Count: n}
		b.Total += n
		b.Minutes = append(b.Minutes, m)
		if b.Peak == nil || n > b.Peak.Count {
			b.Peak = &m
		}
	}
}
