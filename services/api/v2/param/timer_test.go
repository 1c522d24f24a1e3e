package param_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/memstore"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/api/v2/param"
)

// TestIDsGoBeforeNames checks that no timer is hidden behind another one whose name is its id.
func TestIDsGoBeforeNames(t *testing.T) {
	t.Parallel()
	s := memstore.New(time.Now)
	plan := func(*timer.Timer, int64) store.Plan {
		return store.Plan{NextDueMS: timer.NeverMS, ExpandAtMS: timer.NeverMS}
	}
	create := func(app, name string) timer.Timer {
		t.Helper()
		made, err := s.Create(t.Context(), []store.NewTimer{{App: app, Name: name}}, plan)
		require.NoError(t, err)
		require.NoError(t, made[0].Err)
		return made[0].Timer
	}
	one := create("shop", "one")
	hiding := create("shop", one.ID.String())
	elsewhere := create("bank", "two")
	find := func(text string) (timer.ID, bool) {
		t.Helper()
		found, ok, err := param.FindTimer(t.Context(), s, "shop", text)
		require.NoError(t, err)
		return found.ID, ok
	}
	for text, want := range map[string]timer.ID{
		"one": one.ID, one.ID.String(): one.ID, hiding.ID.String(): hiding.ID,
	} {
		id, ok := find(text)
		require.True(t, ok, text)
		require.Equal(t, want, id, text)
	}
	for _, text := range []string{"two", elsewhere.ID.String(), "1"} {
		_, ok := find(text)
		require.False(t, ok, text)
	}

	remove := func(removed timer.Timer) {
		t.Helper()
		changes := []store.StatusChange{{
			App: "shop", ID: removed.ID, Status: timer.StatusDeleted,
		}}
		_, err := s.SetStatus(t.Context(), changes, plan)
		require.NoError(t, err)
	}
	remove(one)
	id, _ := find(one.ID.String())
	require.Equal(t, hiding.ID, id, "a deleted timer hides no other")
	remove(hiding)
	id, ok := find(one.ID.String())
	require.True(t, ok)
	require.Equal(t, one.ID, id)
}
