package explain_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/explain"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

func duration(ms int64) string { return (time.Duration(ms) * time.Millisecond).String() }

func join(lines []string) string { return strings.Join(lines, "\n") }

// find returns the hop with one of the codes.
func find(t *testing.T, hops []explain.Hop, codes ...explain.HopCode) explain.Hop {
	t.Helper()
	i := slices.IndexFunc(hops, func(h explain.Hop) bool { return slices.Contains(codes, h.Code) })
	require.GreaterOrEqual(t, i, 0, "%v in %v", codes, texts(hops))
	return hops[i]
}

func codesOf(hops []explain.Hop) (codes []explain.HopCode) {
	for _, h := range hops {
		codes = append(codes, h.Code)
	}
	return codes
}

// holds is a store with what holds fires back.
type holds struct {
	app      store.App
	open     []timer.Fire
	more     bool
	sessions []store.Session
	oldest   int64
}

func (h *holds) App(context.Context, string) (store.App, error) { return h.app, nil }

func (h *holds) LiveSessions(context.Context) ([]store.Session, error) { return h.sessions, nil }

func (h *holds) OldestOpen(context.Context) (int64, error) { return h.oldest, nil }

func (h *holds) OpenFires(
	context.Context, string, timer.ID, store.OpenFiresQuery,
) (store.OpenFiresPage, error) {
	p := store.OpenFiresPage{Fires: h.open}
	if h.more {
		p.Next.DueMS = 1
	}
	return p, nil
}

func (h *holds) read(t *testing.T) []explain.Hold {
	t.Helper()
	facts := newFixture().read(t, ms(now), ms(now)+1, 1)
	var listed []explain.Answer // open fires have tests of their own
	for i := range h.open {
		listed = append(listed, explain.Answer{Open: &h.open[i]})
	}
	got, err := facts.ReadHolds(t.Context(), h, listed)
	require.NoError(t, err)
	return got
}

func (h *holds) codes(t *testing.T) (out []explain.HoldCode) {
	t.Helper()
	for _, one := range h.read(t) {
		out = append(out, one.Code)
	}
	return out
}

func (h *holds) texts(t *testing.T) (out []string) {
	t.Helper()
	for _, one := range h.read(t) {
		out = append(out, one.Text)
	}
	return out
}
