// Package windowtest is the suite of the window contract: one test per promise. Every
// implementation passes it.
package windowtest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/libs/window"
)

// Instance is an implementation under test. It is empty at first and not shared.
type Instance struct {
	Window window.Window
	// Flush removes everything at once, like a restart of a server without persistence.
	Flush func(t *testing.T)
	// Remaining returns the time until a slice expires. It is 0 or less if there is no slice.
	Remaining func(t *testing.T, s window.Slice) time.Duration
}

// Run runs the suite. setup creates an Instance for each test.
func Run(t *testing.T, setup func(t *testing.T) Instance) {
	t.Helper()
	for _, p := range []struct {
		name string
		test func(*testing.T, Instance)
	}{
		{"W1 Put is idempotent", w1},
		{"W2 Range is ordered and exact", w2},
		{"W3 a loss changes the generation", w3},
		{"W3 opening at once", w3AtOnce},
		{"W4 pages never cut an instant", w4},
		{"W5 Drop", w5},
		{"W6 everything expires", w6},
		{"W7 one Put for many slices", w7},
		{"W7 a Put that cannot be reports it", w7Reports},
		{"W8 slices do not touch", w8},
	} {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			p.test(t, setup(t))
		})
	}
}

// minute returns a slice in the near future; a different n gives a different slice.
func minute(n int64) window.Slice {
	return window.Slice{Minute: timer.MinuteOf(time.Now().UnixMilli()) + 5 + n}
}

// fire returns a fire that runs ms into its slice. id distinguishes fires of one instant.
func fire(s window.Slice, ms int64, id timer.ID) timer.Fire {
	run := s.Minute*timer.MinuteMS + ms
	return timer.Fire{
		FireID: timer.FireID{
			Timer: id,
			DueMS: run,
		},
		RunAtMS: run,
		Bucket:  s.Bucket,
		AppID:   7,
		Version: 2,
		Epoch:   3,
	}
}

func start(s window.Slice) int64 { return s.Minute * timer.MinuteMS }

func put(t *testing.T, p Instance, fires ...timer.Fire) {
	t.Helper()
	require.NoError(t, p.Window.Put(t.Context(), fires))
}

func open(t *testing.T, p Instance, s window.Slice) string {
	t.Helper()
	g, err := p.Window.Open(t.Context(), s)
	require.NoError(t, err)
	require.NotEmpty(t, g)
	return g
}

// all returns all entries of a slice.
func all(t *testing.T, p Instance, s window.Slice) window.Page {
	t.Helper()
	page, err := p.Window.Range(t.Context(), s, start(s)-1, start(s)+timer.MinuteMS, 1_000_000)
	require.NoError(t, err)
	require.False(t, page.More)
	return page
}
