package storetest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store"
)

// BackfillsEndAtTheirBound checks that a backfill creates no more fires than a range may have when it is
// requested, although an edit gives the range more. almost creates all but three of these.
func BackfillsEndAtTheirBound(t *testing.T, env Env, almost func(b store.Backfill)) {
	t.Helper()
	s := newSetup(t, env)
	b := s.backfill(s.create(s.newTimer(), noFires).Timer, 1000)
	almost(b)
	fires := s.expandBackfills(everyMinute(2))
	require.Len(t, fires, 4)
	ended, err := s.st().Backfill(t.Context(), "app", b.ID)
	require.NoError(t, err)
	require.Equal(t, store.BackfillDone, ended.Status)
	require.EqualValues(t, store.MaxBackfillFires+1, ended.FiresCreated, "the last plan is whole")
	require.Greater(t, ended.NextMS, fires[3].DueMS)
	require.Less(t, ended.NextMS, ended.ToMS)
}
