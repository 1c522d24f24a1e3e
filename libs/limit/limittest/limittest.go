// Package limittest is the suite that every limit.SharedState passes. It takes some seconds of real
// time.
package limittest

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/limit"
)

// Run runs the suite. empty returns an empty SharedState.
func Run(t *testing.T, empty func(t *testing.T) limit.SharedState) {
	t.Helper()
	for name, test := range map[string]func(t *attempt, l limit.SharedState){
		"L1 a rate holds across all executors":      rate,
		"L1 a bucket holds at most one burst":       burst,
		"L1 the time of the next token is known":    nextToken,
		"L2 concurrency holds across all executors": concurrent,
		"L2 slots of a dead executor are freed":     dead,
		"L2 running calls keep their slots":         inUse,
		"L3 scarce slots are shared evenly":         shared,
		"L3 fewer slots than executors rotate":      rotation,
		"L4 weights hold across all executors":      weightedShares,
		"L4 fires of a gone executor do not block":  passed,
		"L5 new settings apply at once":             newSettings,
		"an empty demand frees the slots at once":   leaving,
		"apps are separate":                         apart,
		"no demands return no grants":               nothing,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			retryIfStalled(t, func(t *attempt) { test(t, empty(t.T)) })
		})
	}
}

func singleSync(
	t *attempt,
	l limit.SharedState,
	executor string,
	demands ...limit.Demand,
) []limit.Grant {
	t.Helper()
	began := time.Now()
	grants, err := l.Sync(t.Context(), executor, demands)
	t.noteStall(time.Since(began))
	require.NoError(t, err)
	require.Len(t, grants, len(demands))
	return grants
}

func rate(t *attempt, l limit.SharedState) {
	const enough = 800 // 1.5 s of the rate, on an idle machine
	settings := limit.Settings{Rate: 500, Burst: 50}
	var sum atomic.Int64
	started := time.Now()
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for sum.Load() < enough && time.Since(started) < time.Minute {
				g, err := l.Sync(
					t.Context(),
					fmt.Sprint("e", i),
					[]limit.Demand{{App: "a", Settings: settings, Tokens: 20}},
				)
				if err != nil {
					t.Error(err)
					return
				}
				sum.Add(int64(g[0].Tokens))
				pause(t, 10*time.Millisecond)
			}
		})
	}
	all.Wait()
	require.LessOrEqual(t, float64(sum.Load()), 50+500*time.Since(started).Seconds()+1)
	require.GreaterOrEqual(t, sum.Load(), int64(enough), "and it is used")
}

func burst(t *attempt, l limit.SharedState) {
	w := limit.Demand{App: "a", Settings: limit.Settings{Rate: 10, Burst: 5}, Tokens: 100}
	require.Equal(t, 5, singleSync(t, l, "e", w)[0].Tokens, "full at first")
	require.LessOrEqual(t, singleSync(t, l, "e", w)[0].Tokens, 1)
	pause(t, 1100*time.Millisecond)
	require.LessOrEqual(t, singleSync(t, l, "e", w)[0].Tokens, 5)
	w.Tokens = 0
	require.Zero(t, singleSync(t, l, "e", w)[0].Tokens, "none unasked")
}

func nextToken(t *attempt, l limit.SharedState) {
	w := limit.Demand{App: "a", Settings: limit.Settings{Rate: 2, Burst: 1}, Tokens: 2}
	g := singleSync(t, l, "e", w)[0]
	require.Equal(t, 1, g.Tokens)
	require.InDelta(t, 500*time.Millisecond, g.NextToken, float64(150*time.Millisecond))
	pause(t, g.NextToken+20*time.Millisecond)
	require.Equal(t, 1, singleSync(t, l, "e", w)[0].Tokens)
}

func concurrent(t *attempt, l limit.SharedState) {
	const most, executors = 12, 5
	settings := limit.Settings{Concurrent: most}
	held := make([]int, executors)
	for range 300 {
		i := rand.IntN(executors)
		w := limit.Demand{
			App:      "a",
			Settings: settings,
			InUse:    rand.IntN(held[i] + 1),
			Slots:    rand.IntN(2 * most),
		}
		w.Slots = max(w.Slots, w.InUse)
		g := singleSync(t, l, fmt.Sprint("e", i), w)[0]
		held[i] = max(g.Slots, w.InUse)
		sum := 0
		for _, n := range held {
			sum += n
		}
		require.LessOrEqual(t, sum, most)
	}
}

func dead(t *attempt, l limit.SharedState) {
	settings := limit.Settings{Concurrent: 10}
	g := singleSync(t, l, "dies", limit.Demand{App: "a", Settings: settings, InUse: 0, Slots: 10})[0]
	require.Equal(t, 10, g.Slots)
	other := limit.Demand{App: "a", Settings: settings, Slots: 10}
	g = singleSync(t, l, "alive", other)[0]
	require.Zero(t, g.Slots)
	require.Equal(t, 2, g.Executors)
	require.Eventually(t, func() bool {
		return singleSync(t, l, "alive", other)[0].Slots == 10
	}, limit.SlotTTL+2*time.Second, 100*time.Millisecond)
	require.Equal(t, 1, singleSync(t, l, "alive", other)[0].Executors)
}

func inUse(t *attempt, l limit.SharedState) {
	singleSync(
		t,
		l,
		"a",
		limit.Demand{App: "a", Settings: limit.Settings{Concurrent: 10}, Slots: 10},
	)
	singleSync(
		t,
		l,
		"b",
		limit.Demand{App: "a", Settings: limit.Settings{Concurrent: 10}, Slots: 10},
	)
	g := singleSync(t, l, "a", limit.Demand{App: "a", Settings: limit.Settings{Concurrent: 10}, InUse: 8, Slots: 10})[0]
	require.Equal(t, 5, g.Slots, "its part, though eight run: none is started until they are fewer")
	g = singleSync(t, l, "b", limit.Demand{App: "a", Settings: limit.Settings{Concurrent: 10}, Slots: 10})[0]
	require.Equal(t, 2, g.Slots, "of those that run each keeps its slot")
}

// rotation: of two executors that always want the only slot, each gets it at times, and never both
// at once.
func rotation(t *attempt, l limit.SharedState) {
	held, had := map[string]int{}, map[string]int{}
	for began := time.Now(); time.Since(began) < 2*limit.SlotRotation+time.Second; {
		for _, e := range []string{"a", "b"} {
			held[e] = singleSync(t, l, e, limit.Demand{App: "a", Settings: limit.Settings{Concurrent: 1}, InUse: 0, Slots: 3})[0].Slots
			had[e] += held[e]
			require.LessOrEqual(t, held["a"]+held["b"], 1)
		}
		pause(t, 20*time.Millisecond)
	}
	require.Positive(t, had["a"])
	require.Positive(t, had["b"])
}

func shared(t *attempt, l limit.SharedState) {
	settings := limit.Settings{Concurrent: 12}
	ask := func(executor string, want int) int {
		return singleSync(t, l, executor, limit.Demand{App: "a", Settings: settings, Slots: want})[0].Slots
	}
	require.Equal(t, 12, ask("a", 12))
	require.Equal(t, 0, ask("b", 12))
	require.Equal(t, 6, ask("a", 12), "it makes room when it asks again")
	require.Equal(t, 6, ask("b", 12))
	require.Equal(t, 0, ask("c", 2))
	require.Equal(t, 5, ask("a", 12))
	require.Equal(t, 5, ask("b", 12))
	require.Equal(t, 2, ask("c", 2), "a claim below the even part is satisfied")
}

// weightedShares: executors with waiting fires of every priority get the picks of one picker,
// however they ask. An executor without fires of the picked priority leaves the token to the
// others.
func weightedShares(t *attempt, l limit.SharedState) {
	settings := limit.Settings{Rate: 2000, Burst: 2000}
	var all []limit.Priority
	left := map[string]*[limit.Priorities]int{
		"a": {300, 100, 0},
		"b": {300, 100, 40},
		"c": {0, 0, 40},
	}
	for _, e := range []string{"a", "b", "c"} { // the first Sync announces what waits
		g := singleSync(t, l, e, limit.Demand{App: "a", Settings: settings, Waiting: *left[e]})[0]
		require.Empty(t, g.Order, "none could start")
	}
	for range 420 {
		e := []string{"a", "b", "c"}[rand.IntN(3)]
		g := singleSync(t, l, e, limit.Demand{App: "a", Settings: settings, Waiting: *left[e], Starts: 1 + rand.IntN(9), Tokens: 5})[0]
		require.Zero(t, g.Tokens, "nothing is fetched ahead while others wait")
		for _, turn := range g.Order {
			require.Positive(t, left[e][turn], "a token for a priority that does not wait here")
			left[e][turn]--
		}
		all = append(all, g.Order...)
		if len(all) >= 420 {
			break
		}
		// So that waiting fires count, however slow the shared state is.
		for _, e := range []string{"a", "b", "c"} {
			singleSync(t, l, e, limit.Demand{App: "a", Settings: settings, Waiting: *left[e]})
		}
	}
	require.Greater(t, len(all), 210)
	share := [limit.Priorities]int{32, 8, 2}
	for from := range len(all) - 41 {
		var got [limit.Priorities]int
		for _, p := range all[from : from+42] {
			got[p]++
		}
		for p, n := range share {
			require.InDelta(t, n, got[p], 1, "picks %d to %d: %v", from, from+41, got)
		}
	}
}

func passed(t *attempt, l limit.SharedState) {
	settings := limit.Settings{Rate: 1000, Burst: 100}
	singleSync(
		t,
		l,
		"gone",
		limit.Demand{App: "a", Settings: settings, Waiting: [limit.Priorities]int{100, 0, 0}},
	)
	w := limit.Demand{
		App:      "a",
		Settings: settings,
		Waiting:  [limit.Priorities]int{0, 0, 50},
		Starts:   50,
	}
	require.LessOrEqual(
		t,
		len(singleSync(t, l, "stays", w)[0].Order),
		1,
		"the tokens of high belong to another executor",
	)
	pause(t, limit.WaitTTL+50*time.Millisecond)
	require.Len(t, singleSync(t, l, "stays", w)[0].Order, 50)
	w.Waiting, w.Starts, w.Tokens = [limit.Priorities]int{}, 0, 5
	require.Equal(
		t,
		5,
		singleSync(t, l, "stays", w)[0].Tokens,
		"then tokens for fires still to come",
	)
}

func newSettings(t *attempt, l limit.SharedState) {
	ask := func(s limit.Settings) limit.Grant {
		return singleSync(t, l, "e", limit.Demand{App: "a", Settings: s, Tokens: 50, Slots: 50})[0]
	}
	g := ask(limit.Settings{Rate: 1, Burst: 1, Concurrent: 1})
	require.Equal(t, 1, g.Tokens)
	require.Equal(t, 1, g.Slots)
	pause(t, 100*time.Millisecond)
	g = ask(limit.Settings{Rate: 1000, Burst: 1000, Concurrent: 50})
	require.Equal(t, 50, g.Tokens)
	require.Equal(t, 50, g.Slots)
	g = ask(limit.Settings{Rate: 1, Burst: 1, Concurrent: 3})
	require.LessOrEqual(t, g.Tokens, 1)
	require.Equal(t, 3, g.Slots)
}

func leaving(t *attempt, l limit.SharedState) {
	settings := limit.Settings{Concurrent: 10}
	singleSync(t, l, "a", limit.Demand{App: "a", Settings: settings, Slots: 10})
	singleSync(t, l, "a", limit.Demand{App: "a", Settings: settings})
	g := singleSync(t, l, "b", limit.Demand{App: "a", Settings: settings, Slots: 10})[0]
	require.Equal(t, 10, g.Slots)
	require.Equal(t, 1, g.Executors)
}

func apart(t *attempt, l limit.SharedState) {
	settings := limit.Settings{Rate: 1, Burst: 1, Concurrent: 1}
	grants := singleSync(
		t,
		l,
		"e",
		limit.Demand{
			App:      "a",
			Settings: settings,
			Tokens:   1,
			Slots:    1,
		},
		limit.Demand{App: "b}{", Settings: settings, Tokens: 1, Slots: 1},
		limit.Demand{App: "", Settings: limit.Settings{}, Tokens: 1, Slots: 1},
	)
	require.Equal(t, 1, grants[0].Tokens)
	require.Equal(t, 1, grants[1].Tokens)
	require.Equal(t, 1, grants[0].Slots)
	require.Equal(t, 1, grants[1].Slots)
	require.Zero(t, grants[2].Tokens, "without a limit there is nothing to give")
}

func nothing(t *attempt, l limit.SharedState) {
	require.Empty(t, singleSync(t, l, "e"))
}

func pause(t *attempt, d time.Duration) {
	t.Helper()
	select {
	case <-time.After(d):
	case <-t.Context().Done():
	}
}
