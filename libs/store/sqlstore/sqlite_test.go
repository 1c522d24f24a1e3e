package sqlstore_test

import (
	"testing"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/sqlstore"
	"github.com/carillon-timer/carillon/libs/store/storetest"
)

func openSQLite(t *testing.T, o sqlstore.SQLiteOptions) *sqlstore.Store {
	t.Helper()
	o.Logger = zerolog.New(zerolog.NewTestWriter(t)).Level(zerolog.WarnLevel)
	s, err := sqlstore.OpenSQLite(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	require.NoError(t, s.Migrate(t.Context()))
	return s
}

func TestSQLite(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) storetest.Env {
		t.Helper()
		return storetest.Env{Stores: []store.Store{openSQLite(t, sqlstore.SQLiteOptions{})}}
	})
}
