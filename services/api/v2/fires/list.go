package fires

import (
	"context"
	"slices"

	"github.com/carillon-timer/carillon/libs/explain"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/api/v2/param"
)

// States by which fires are listed. The states of finished fires are the kinds of their outcomes.
const (
	stateOpen     = "open"
	stateUpcoming = "upcoming"
)

// Limits of the rows that one request reads, however few of them match.
const (
	OpenScanLimit   = 50_000 // open fires of all timers, per statement
	maxOpenScans    = 4
	historyPage     = store.MaxBatch // outcomes, per statement
	maxHistoryPages = 20
)

type listFiresInput struct {
	param.TimerParam
	param.PageParam
	State []string `query:"state" enum:"open,delivered,failed,skipped,upcoming" doc:"Only fires of these states, separated by commas; where it is left out, delivered,failed,skipped. open: due, and without outcome yet: it waits for what its waits_for names. delivered: an attempt succeeded. failed: it was called, and is not tried again. skipped: it was not called, or its call was given up, for its reason. upcoming: due later than the first page was asked for, as far as the schedule tells. Open fires come first, the first due first; then finished ones, the latest due first; then upcoming ones, the next first, as many as the last page has room for. A page may have fewer items than limit, or none, and still a next_cursor. A fire that finishes between two pages may be on both. Pass the same states with a cursor as before."`
}

type firesOutput struct{ Body firesBody }

// fireList gathers one page of a timer's fires.
type fireList struct {
	service *Resource
	app     string
	id      timer.ID
	states  []string
	limit   int

	items []FireBody
	next  string // cursor
}

// listFires reads open fires before finished ones. A fire that finishes in between is listed twice;
// none is missed. The time of the first page decides, for all pages, which fires are due.
func (s *Resource) listFires(ctx context.Context, in *listFiresInput) (*firesOutput, error) {
	id, err := param.Timer(ctx, s.Auth, &in.TimerParam)
	if err != nil {
		return nil, err
	}
	l := &fireList{
		service: s,
		app:     in.App,
		id:      id,
		states:  in.State,
		limit:   in.Limit,
		items:   make([]FireBody, 0, in.Limit),
	}
	if len(l.states) == 0 {
		l.states = []string{string(timer.Delivered), string(timer.Failed), string(timer.Skipped)}
	}
	at, err := l.start(in.Cursor)
	if err != nil {
		return nil, err
	}
	for _, part := range []struct {
		list firesSection
		read func(context.Context, *firesPosition) error
	}{{openSection, l.open}, {finishedSection, l.finished}, {upcomingSection, l.upcoming}} {
		if part.list != at.section || l.next != "" {
			continue
		}
		if l.wants(part.list) {
			if len(l.items) == l.limit {
				l.next = at.cursor()
				break
			}
			if err := part.read(ctx, &at); err != nil {
				return nil, err
			}
		}
		at.section, at.fire = at.section+1, timer.FireID{}
	}
	return &firesOutput{firesBody{Items: l.items, NextCursor: l.next}}, nil
}

// start returns the position at which a page begins.
func (l *fireList) start(cursor string) (firesPosition, error) {
	nowMS := l.service.Now().UnixMilli()
	if cursor == "" {
		return firesPosition{asOfMS: nowMS}, nil
	}
	at, err := decodeFiresCursor(l.id, cursor, nowMS)
	if err == nil && !l.wants(at.section) {
		err = timer.Invalid(
			"query.cursor",
			"expected a cursor of a list of the same states, found one of others: pass state as it was",
		)
	}
	return at, err
}

// wants returns whether a section of the list was requested.
func (l *fireList) wants(p firesSection) bool {
	switch p {
	case openSection:
		return slices.Contains(l.states, stateOpen)
	case upcomingSection:
		return slices.Contains(l.states, stateUpcoming)
	case finishedSection:
		return slices.ContainsFunc(
			l.states,
			func(state string) bool { return state != stateOpen && state != stateUpcoming },
		)
	}
	return false
}

// open lists due fires without an outcome.
func (l *fireList) open(ctx context.Context, at *firesPosition) error {
	for range maxOpenScans {
		page, err := l.service.Store.OpenFires(ctx, l.app, l.id, store.OpenFiresQuery{
			After: store.OpenFiresPosition{
				DueMS:  at.fire.DueMS,
				Series: at.fire.Series,
			},
			UntilMS:   at.asOfMS,
			ScanLimit: OpenScanLimit,
			Limit:     l.limit - len(l.items),
		})
		if err != nil {
			return err //nolint:wrapcheck // the store says what it was doing
		}
		alive, err := explain.ReadOwners(ctx, l.service.Store, page.Fires)
		if err != nil {
			return err //nolint:wrapcheck // the store says what it was doing
		}
		state, err := l.state(ctx, page.Fires)
		if err != nil {
			return err
		}
		nowMS := l.service.Now().UnixMilli()
		for i := range page.Fires {
			f := &page.Fires[i]
			l.items = append(l.items, ShowOpen(f, explain.OpenCode(f, alive, state, nowMS)))
		}
		if page.Next == (store.OpenFiresPosition{}) {
			return nil
		}
		at.fire = timer.FireID{Timer: l.id, DueMS: page.Next.DueMS, Series: page.Next.Series}
		if len(l.items) == l.limit {
			break
		}
	}
	l.next = at.cursor()
	return nil
}

// state returns the state of the timer, nil if no fire is open or it is gone.
func (l *fireList) state(ctx context.Context, open []timer.Fire) (*timer.State, error) {
	if len(open) == 0 {
		return nil, nil //nolint:nilnil // it is not needed
	}
	found, err := l.service.Store.States(ctx, []timer.ID{l.id})
	if err != nil || len(found) == 0 {
		return nil, err //nolint:wrapcheck // the store says what it was doing
	}
	return &found[0], nil
}

// finished lists outcomes, and skips those of kinds that were not requested.
func (l *fireList) finished(ctx context.Context, at *firesPosition) error {
	all := !slices.ContainsFunc(
		[]timer.OutcomeKind{timer.Delivered, timer.Failed, timer.Skipped},
		func(k timer.OutcomeKind) bool {
			return !slices.Contains(l.states, string(k))
		},
	)
	for range maxHistoryPages {
		limit := historyPage
		if all {
			limit = l.limit - len(l.items) + 1 // one more tells whether there is a next page
		}
		found, err := l.service.Store.History(ctx, l.app, l.id, at.fire, limit)
		if err != nil {
			return err //nolint:wrapcheck // the store says what it was doing
		}
		for i := range found {
			o := &found[i]
			if !slices.Contains(l.states, string(o.Kind)) {
				at.fire = o.FireID
				continue
			}
			if len(l.items) == l.limit {
				l.next = l.finishedNext(at)
				return nil
			}
			l.items = append(l.items, ShowOutcome(o))
			at.fire = o.FireID
		}
		if len(found) < limit {
			return nil
		}
	}
	l.next = l.finishedNext(at)
	return nil
}

// finishedNext returns the cursor of a position among the finished fires.
func (l *fireList) finishedNext(at *firesPosition) string {
	if l.wants(openSection) || l.wants(upcomingSection) {
		return at.cursor()
	}
	return at.finishedCursor()
}

// upcoming lists the next instants of the schedule. It is the last section.
func (l *fireList) upcoming(ctx context.Context, at *firesPosition) error {
	t, err := l.service.Store.Timer(ctx, l.app, l.id)
	if timer.CodeOf(err) == timer.CodeNotFound {
		return nil // deleted: no fires are upcoming
	}
	if err != nil {
		return err //nolint:wrapcheck // the store says what it was doing
	}
	dues, err := l.service.Upcoming.Upcoming(ctx, &t, at.asOfMS, l.limit-len(l.items))
	for _, due := range dues {
		l.items = append(l.items, showUpcoming(&t, due))
	}
	return err
}
