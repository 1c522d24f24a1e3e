package sqlstore_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/sqlstore"
	"github.com/carillon-timer/carillon/libs/store/storetest"
)

func TestAuditFeedPassesTheFuture(t *testing.T) {
	t.Parallel()
	onEachEngine(t, func(t *testing.T, s *sqlstore.Store) {
		t.Helper()
		storetest.AuditFeedPassesTheFuture(t, storetest.Env{Stores: []store.Store{s}},
			func(add func(name string), name string, by time.Duration) {
				add(name)
				_, err := s.Exec(t.Context(), "UPDATE audit_log SET changed_ms=? WHERE name=?",
					time.Now().Add(by).UnixMilli(), name)
				require.NoError(t, err)
			})
	})
}
