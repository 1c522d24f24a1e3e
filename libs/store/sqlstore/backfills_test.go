package sqlstore_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/sqlstore"
	"github.com/carillon-timer/carillon/libs/store/storetest"
)

func TestBackfillsEndAtTheirBound(t *testing.T) {
	t.Parallel()
	onEachEngine(t, func(t *testing.T, s *sqlstore.Store) {
		t.Helper()
		storetest.BackfillsEndAtTheirBound(t, storetest.Env{Stores: []store.Store{s}},
			func(b store.Backfill) {
				_, err := s.Exec(t.Context(), "UPDATE backfills SET fires_created=? WHERE id=?",
					store.MaxBackfillFires-3, int64(b.ID))
				require.NoError(t, err)
			})
	})
}
