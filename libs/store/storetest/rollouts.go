package storetest

import (
	"hash/fnv"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// rollout is a deployment whose processes start and stop with three versions of the time zones.
type rollout struct {
	*setup

	rng    *rand.Rand
	plans  []store.Planner // by version
	live   map[int][]timer.ID
	timers []timer.Timer
}

var rolloutRules = []map[string]string{zonesV1, zonesV2, zonesV3}

// randomRollouts starts and stops processes of three versions, which create, edit, pause and expand
// timers and replan. When one version is left, every timer is planned by it, and every future
// instant has its fire.
func randomRollouts(t *testing.T, s *setup) {
	const seeds, steps = 6, 50
	end := s.nowMS() + 10*timer.MinuteMS
	first := fnv.New64a()
	_, _ = first.Write([]byte(t.Name())) // each engine has seeds of its own
	for seed := first.Sum64(); seed < first.Sum64()+seeds; seed++ {
		r := &rollout{setup: s, rng: rand.New(rand.NewPCG(seed, 1)), live: map[int][]timer.ID{}}
		for v := range rolloutRules {
			r.plans = append(r.plans, zoned(time.Duration(v)*berlinMoves, end))
		}
		r.start(0)
		for range steps {
			r.step()
		}
		last := r.rng.IntN(len(rolloutRules))
		id := r.start(last)
		for v, ids := range r.live {
			for _, other := range ids {
				if v != last {
					r.dropZones(other)
				}
			}
		}
		for range 3 { // a walk that was under way is followed by a last one
			r.replanZones(id, 3)
		}
		require.Equal(t, 1, r.zoneRules(id), "seed %d", seed)
		r.expandDue(r.plans[last])
		for i := range r.timers {
			if tm := r.read(i); tm.Status != timer.StatusActive {
				r.setStatus(tm, timer.StatusActive, r.plans[last])
			}
			r.requireBerlinShift(r.timers[i].ID, time.Duration(last)*berlinMoves, end)
		}
		for _, other := range r.live[last] {
			r.dropZones(other)
		}
	}
}

func (r *rollout) start(version int) timer.ID {
	h := store.Process{Version: "2030" + "abc"[version:version+1], Expands: r.rng.IntN(2) == 0}
	id := r.register(h, rolloutRules[version])
	r.live[version] = append(r.live[version], id)
	return id
}

func (r *rollout) read(i int) timer.Timer {
	r.t.Helper()
	tm, err := r.st().Timer(r.t.Context(), "app", r.timers[i].ID)
	require.NoError(r.t, err)
	return tm
}

// step lets one of the alive processes do one thing.
func (r *rollout) step() {
	r.t.Helper()
	version := r.rng.IntN(len(rolloutRules))
	if len(r.live[version]) == 0 {
		r.start(version)
		return
	}
	plan, ids := r.plans[version], r.live[version]
	switch n := r.rng.IntN(10); {
	case n == 0 && len(ids) == 1 && r.rng.IntN(2) == 0:
		r.start(version)
	case n == 0:
		r.dropZones(ids[0])
		r.live[version] = ids[1:]
	case n < 3:
		r.timers = append(r.timers, r.gridTimer(zonedDefinition("Europe/Berlin"), plan).Timer)
	case n < 6:
		_, _, err := r.st().Expand(r.t.Context(), 2, plan)
		require.NoError(r.t, err)
	case n < 8:
		_, err := r.st().ReplanZones(r.t.Context(), ids[0], 2+r.rng.IntN(20))
		require.NoError(r.t, err)
	case len(r.timers) == 0:
	case n == 8:
		d := zonedDefinition("Europe/Berlin")
		d.Labels = map[string]string{"n": strconv.Itoa(r.rng.Int())}
		r.edit(r.read(r.rng.IntN(len(r.timers))), d, plan)
	default:
		to := []timer.Status{timer.StatusActive, timer.StatusInactive}[r.rng.IntN(2)]
		r.setStatus(r.read(r.rng.IntN(len(r.timers))), to, plan)
	}
}
