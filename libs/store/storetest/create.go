package storetest

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

func oneOfManyCreatesWins(t *testing.T, s *setup) {
	const calls, names = 16, 20
	results := make([][]store.CreateResult, calls)
	s.together(calls, func(ctx context.Context, i int, st store.Store) error {
		items := make([]store.NewTimer, names)
		for n := range items {
			// Half of the callers name them in reverse order, and a quarter has another definition.
			name := n
			if i%2 == 1 {
				name = names - 1 - n
			}
			items[n] = store.NewTimer{
				App:        "app",
				Name:       fmt.Sprint("n", name),
				Definition: definition(fmt.Sprint("http://", i%4)),
				Activate:   true,
			}
		}
		var err error
		results[i], err = st.Create(ctx, items, noFires)
		return err
	})
	made, byName := 0, map[string]timer.Timer{}
	for _, out := range results {
		for _, c := range out {
			if c.Err == nil && !c.Existing {
				made++
				byName[c.Timer.Name] = c.Timer
			}
		}
	}
	require.Equal(t, names, made)
	require.Len(t, byName, names)
	for i, out := range results {
		for _, c := range out {
			switch {
			case c.Err != nil:
				requireCode(t, timer.CodeConflict, c.Err)
			default:
				require.Equal(t, byName[c.Timer.Name].ID, c.Timer.ID)
				require.Equal(t, fmt.Sprint("http://", i%4), c.Timer.Definition.Target.URL)
			}
		}
	}
	all, err := s.st().List(t.Context(), store.Query{App: "app", Limit: 100})
	require.NoError(t, err)
	require.Len(t, all, names)
}

// originIsNoDefinition checks that the origin of a timer is that of its first create, whatever
// changes later.
func originIsNoDefinition(t *testing.T, s *setup) {
	const origin = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	first := s.newTimer()
	first.Origin = origin
	other := first
	other.Origin = ""
	out, err := s.st().Create(t.Context(), []store.NewTimer{first, other}, noFires)
	require.NoError(t, err)
	require.Equal(t, origin, out[0].Timer.Origin)
	require.NoError(t, out[1].Err)
	require.True(t, out[1].Existing, "the same definition")
	require.Equal(t, origin, out[1].Timer.Origin)
	id := out[0].Timer.ID
	for _, status := range []timer.Status{timer.StatusActive, timer.StatusPaused} {
		changed, err := s.st().SetStatus(
			t.Context(), []store.StatusChange{{App: first.App, ID: id, Status: status}}, noFires,
		)
		require.NoError(t, err)
		require.NoError(t, changed[0].Err)
		require.Equal(t, origin, changed[0].Timer.Origin)
	}
	stored, err := s.st().Timer(t.Context(), first.App, id)
	require.NoError(t, err)
	require.Equal(t, origin, stored.Origin)
	states, err := s.st().States(t.Context(), []timer.ID{id})
	require.NoError(t, err)
	require.Equal(t, origin, states[0].Origin)
}

func namesInOneCall(t *testing.T, s *setup) {
	first := s.newTimer()
	other := first
	other.Definition = definition("http://b")
	same := first
	out, err := s.st().Create(t.Context(), []store.NewTimer{first, other, same}, noFires)
	require.NoError(t, err)
	require.NoError(t, out[0].Err)
	require.False(t, out[0].Existing)
	requireCode(t, timer.CodeConflict, out[1].Err)
	require.NoError(t, out[2].Err)
	require.True(t, out[2].Existing)
	require.Equal(t, out[0].Timer.ID, out[2].Timer.ID)
}

func deletedNameIsFree(t *testing.T, s *setup) {
	n := s.newTimer()
	old := s.create(n, noFires).Timer
	s.setStatus(old, timer.StatusDeleted, noFires)
	_, err := s.st().Timer(t.Context(), "app", old.ID)
	requireCode(t, timer.CodeNotFound, err)
	n.Definition = definition("http://other")
	made := s.create(n, noFires)
	require.False(t, made.Existing)
	require.NotEqual(t, old.ID, made.Timer.ID)
	// The name can be freed again and again.
	s.setStatus(made.Timer, timer.StatusDeleted, noFires)
	require.False(t, s.create(n, noFires).Existing)
}

func namesAreBytes(t *testing.T, s *setup) {
	seen := map[timer.ID]bool{}
	for _, name := range []string{"a", "A", "a ", "ä", "a\u0308", strings.Repeat("x", timer.MaxNameLen)} {
		for _, app := range []string{"app", "App"} {
			c := s.create(
				store.NewTimer{App: app, Name: name, Definition: definition("http://a")},
				noFires,
			)
			require.False(t, c.Existing, "%q", name)
			require.False(t, seen[c.Timer.ID])
			seen[c.Timer.ID] = true
			got, err := s.st().Timer(t.Context(), app, c.Timer.ID)
			require.NoError(t, err)
			require.Equal(t, name, got.Name)
		}
	}
}

func idempotencyKeys(t *testing.T, s *setup) {
	n := s.newTimer()
	n.IdempotencyKey, n.RequestHash = "k", []byte("request")
	first := s.create(n, noFires)
	require.False(t, first.Existing)
	again := s.create(n, noFires)
	require.True(t, again.Existing)
	require.Equal(t, first.Timer, again.Timer)

	// The key is checked before the name. Another app has keys of its own.
	renamed := n
	renamed.Name = "renamed"
	require.Equal(t, first.Timer.ID, s.create(renamed, noFires).Timer.ID)
	other := n
	other.RequestHash = []byte("another request")
	out, err := s.st().Create(t.Context(), []store.NewTimer{other}, noFires)
	require.NoError(t, err)
	requireCode(t, timer.CodeConflict, out[0].Err)
	elsewhere := other
	elsewhere.App = "another app"
	require.False(t, s.create(elsewhere, noFires).Existing)

	s.setStatus(first.Timer, timer.StatusDeleted, noFires)
	late := s.create(n, noFires)
	require.Equal(t, first.Timer.ID, late.Timer.ID)
	require.Equal(t, timer.StatusDeleted, late.Timer.Status)

	twice := s.newTimer()
	twice.IdempotencyKey, twice.RequestHash = "k2", []byte("r")
	conflict := twice
	conflict.RequestHash = []byte("q")
	out, err = s.st().Create(t.Context(), []store.NewTimer{twice, twice, conflict}, noFires)
	require.NoError(t, err)
	require.False(t, out[0].Existing)
	require.True(t, out[1].Existing)
	requireCode(t, timer.CodeConflict, out[2].Err)
}

func concurrentIdempotencyKeys(t *testing.T, s *setup) {
	const calls = 12
	results := make([]store.CreateResult, calls)
	s.together(calls, func(ctx context.Context, i int, st store.Store) error {
		// The names differ, so only the key can show that it is one request.
		n := store.NewTimer{
			App:            "app",
			Name:           fmt.Sprint("by", i),
			Definition:     definition("http://a"),
			IdempotencyKey: "k",
			RequestHash:    []byte("r"),
		}
		out, err := st.Create(ctx, []store.NewTimer{n}, noFires)
		if err == nil {
			results[i] = out[0]
		}
		return err
	})
	made := 0
	for _, c := range results {
		require.NoError(t, c.Err)
		require.Equal(t, results[0].Timer.ID, c.Timer.ID)
		if !c.Existing {
			made++
		}
	}
	require.Equal(t, 1, made)
	all, err := s.st().List(t.Context(), store.Query{App: "app", Limit: 100})
	require.NoError(t, err)
	require.Len(t, all, 1)
	putIfAbsentKeepsTheFirst(t, s)
}
