package memstore

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// zones has the processes, the known rules of time zones, and the progress of a replan.
type zones struct {
	rules     map[string]map[string]string // by hash
	processes map[timer.ID]*process

	hash        string // of the walk
	lastTimerID timer.ID
	exclusivity int // 0: a migrator has other rules than the walk, 1: another process, 2: nobody
	done        bool
}

type process struct {
	store.Process

	renewedMS int64
}

// RegisterProcess registers a process and the rules by which it plans.
func (s *Store) RegisterProcess(
	_ context.Context,
	p store.Process,
	rules map[string]string,
) error {
	text, err := json.Marshal(rules)
	if err != nil {
		return err
	}
	defer s.lock()()
	p.Hash = string(text)
	s.zones.rules[p.Hash] = maps.Clone(rules)
	s.zones.processes[p.ID] = &process{p, s.nowMS()}
	s.zones.exclusivity = min(s.zones.exclusivity, exclusivityBeside(&p, s.zones.hash))
	return nil
}

// exclusivityBeside returns the exclusivity of a walk while a process is alive.
func exclusivityBeside(p *store.Process, hash string) int {
	switch {
	case p.Hash == hash:
		return 2
	case p.Expands:
		return 0
	}
	return 1
}

// liveProcesses returns the alive processes, and whether a process is one of them.
func (s *Store) liveProcesses(id timer.ID) ([]store.Process, *store.Process) {
	var all []store.Process
	for _, p := range s.zones.processes {
		if p.renewedMS > s.nowMS()-store.ProcessTTL.Milliseconds() {
			all = append(all, p.Process)
		}
	}
	slices.SortFunc(all, func(a, b store.Process) int { return cmp.Compare(a.ID, b.ID) })
	if i := slices.IndexFunc(all, func(p store.Process) bool { return p.ID == id }); i >= 0 {
		return all, &all[i]
	}
	return all, nil
}

// RenewProcess keeps a process registered.
func (s *Store) RenewProcess(_ context.Context, id timer.ID) (store.ProcessList, error) {
	defer s.lock()()
	all, mine := s.liveProcesses(id)
	if mine == nil || s.zones.rules[mine.Hash] == nil {
		return store.ProcessList{}, timer.NoSuch("process", id.String())
	}
	s.zones.processes[id].renewedMS = s.nowMS()
	return store.ProcessList{Processes: all, Rules: len(s.zones.rules), Database: "memory"}, nil
}

// DropProcess removes a process.
func (s *Store) DropProcess(_ context.Context, id timer.ID) error {
	defer s.lock()()
	delete(s.zones.processes, id)
	return nil
}

// ReplanZones marks the next timers.
func (s *Store) ReplanZones(
	_ context.Context,
	id timer.ID,
	limit int,
) (step store.ZoneReplan, err error) {
	defer s.lock()()
	all, mine := s.liveProcesses(id)
	if mine == nil {
		return step, timer.NoSuch("process", id.String())
	}
	latest := slices.MaxFunc(all, func(a, b store.Process) int {
		return cmp.Or(cmp.Compare(a.Version, b.Version), cmp.Compare(a.Hash, b.Hash))
	})
	exclusivity := 2
	for i := range all {
		exclusivity = min(exclusivity, exclusivityBeside(&all[i], mine.Hash))
	}
	z := &s.zones
	switch {
	case len(z.rules) < 2 || latest.Hash != mine.Hash || z.hash == mine.Hash && z.done && exclusivity <= z.exclusivity && exclusivity < 2:
		return step, nil
	case z.hash != mine.Hash || z.done:
		z.hash, z.lastTimerID, z.exclusivity, z.done = mine.Hash, 0, exclusivity, false
	default:
		z.exclusivity = min(z.exclusivity, exclusivity)
	}
	step.Marked, z.done = s.replanPage(mine.Hash, limit)
	if z.done && z.exclusivity == 2 {
		z.rules = map[string]map[string]string{mine.Hash: z.rules[mine.Hash]}
	}
	step.More = !z.done
	return step, nil
}

func (s *Store) replanPage(mine string, limit int) (marked int, last bool) {
	page := slices.DeleteFunc(
		slices.Clone(s.rows),
		func(t *row) bool { return t.ID <= s.zones.lastTimerID || t.Status == timer.StatusDeleted },
	)
	slices.SortFunc(page, func(a, b *row) int { return cmp.Compare(a.ID, b.ID) })
	last = len(page) < limit
	for _, t := range page[:min(len(page), limit)] {
		s.zones.lastTimerID = t.ID
		s.fillCalendars(t)
		if slices.ContainsFunc(
			t.Zones(),
			func(name string) bool { return s.zoneChanged(cmp.Or(name, "UTC"), mine) },
		) {
			s.requestReplan(t, s.nowMS())
			marked++
		}
	}
	return marked, last
}

func (s *Store) zoneChanged(name, mine string) bool {
	for _, rules := range s.zones.rules {
		if rules[name] != s.zones.rules[mine][name] {
			return true
		}
	}
	return false
}
