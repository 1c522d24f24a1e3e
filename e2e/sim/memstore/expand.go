package memstore

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// postpone is how much later a timer is looked at again whose plan failed and named no later instant.
const postpone = time.Minute

var errBadPlan = errors.New("the plan goes back, repeats itself, or is another timer's")

func (s *Store) activate(t *row, plan store.Planner, nowMS int64) []timer.Fire {
	t.Status, t.ActiveSinceMS, t.UpdatedMS = timer.StatusActive, nowMS, nowMS
	t.ActiveEpoch++
	return s.expand(t, plan, nowMS)
}

// expand plans a stretch of a timer, moves it forward and inserts its fires.
func (s *Store) expand(t *row, plan store.Planner, nowMS int64) []timer.Fire {
	p := plan(&t.Timer, nowMS)
	if p.Err == nil {
		p.Err = checkPlan(&t.Timer, &p)
	}
	if p.Err != nil {
		t.ExpandAtMS = p.ExpandAtMS
		if t.ExpandAtMS <= nowMS {
			t.ExpandAtMS = nowMS + postpone.Milliseconds()
		}
		p.Fires = nil
	} else {
		t.NextDueMS, t.ExpandAtMS = p.NextDueMS, p.ExpandAtMS
		t.FiresMade += int64(len(p.Fires))
	}
	s.expandMS = min(s.expandMS, t.ExpandAtMS)
	for _, f := range p.Fires {
		if s.fires[f.FireID] == nil {
			s.insert(&f)
		}
	}
	return p.Fires
}

// catchUp expands what came due while the timer was active and nobody expanded it.
func (s *Store) catchUp(t *row, plan store.Planner, nowMS int64) (fires []timer.Fire) {
	for t.NextDueMS <= nowMS {
		p := plan(&t.Timer, nowMS)
		if p.Err != nil || checkPlan(&t.Timer, &p) != nil {
			break
		}
		n := 0
		for ; n < len(p.Fires) && p.Fires[n].DueMS <= nowMS; n++ {
			s.insert(&p.Fires[n])
		}
		t.NextDueMS, t.ExpandAtMS = p.NextDueMS, p.ExpandAtMS
		if n < len(p.Fires) {
			t.NextDueMS = p.Fires[n].DueMS
		}
		t.FiresMade += int64(n)
		fires = append(fires, slices.Clone(p.Fires[:n])...)
		if n == 0 {
			break
		}
	}
	return fires
}

// checkPlan sees to it that no due instant of a timer comes up twice.
func checkPlan(t *timer.Timer, p *store.Plan) error {
	slices.SortFunc(p.Fires, timer.CompareFires)
	last := t.NextDueMS - 1
	for i := range p.Fires {
		f := &p.Fires[i]
		if f.Timer != t.ID || f.Series != 0 || f.DueMS <= last {
			return errBadPlan
		}
		last = f.DueMS
		f.AppID, f.Version, f.Epoch, f.Rev, f.Owner, f.Sweeps = t.AppID, t.Version, t.ActiveEpoch, 0, 0, 0
	}
	if p.NextDueMS < t.NextDueMS || len(p.Fires) > 0 && last >= p.NextDueMS {
		return errBadPlan
	}
	return nil
}

// waiting returns the active timers whose time to be expanded has come, in the order in which it came.
func (s *Store) waiting(nowMS int64) (ts []*row) {
	if nowMS < s.expandMS {
		return nil
	}
	s.expandMS = timer.NeverMS
	for _, t := range s.rows {
		if t.Status != timer.StatusActive {
			continue
		}
		s.expandMS = min(s.expandMS, t.ExpandAtMS)
		if t.ExpandAtMS <= nowMS {
			ts = append(ts, t)
		}
	}
	slices.SortStableFunc(ts, func(a, b *row) int { return cmp.Compare(a.ExpandAtMS, b.ExpandAtMS) })
	return ts
}

// Expand plans timers one after the other.
func (s *Store) Expand(_ context.Context, limit int, plan store.Planner) (fires []timer.Fire, n int, err error) {
	defer s.lock()()
	nowMS := s.nowMS()
	ts := s.waiting(nowMS)
	n = min(len(ts), limit)
	for _, t := range ts[:n] {
		fires = append(fires, s.expand(t, plan, nowMS)...)
	}
	return fires, n, nil
}

// ExpandBacklog counts the timers that Expand would take.
func (s *Store) ExpandBacklog(_ context.Context, limit int) (n int, oldestMS int64, err error) {
	defer s.lock()()
	ts := s.waiting(s.nowMS())
	if len(ts) == 0 {
		return 0, 0, nil
	}
	return min(len(ts), limit), ts[0].ExpandAtMS, nil
}
