package sqlstore_test

import (
	"testing"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/sqlstore"
	"github.com/carillon-timer/carillon/libs/store/storetest"
	"github.com/carillon-timer/carillon/libs/testenv"
)

func openMySQL(t *testing.T, o sqlstore.MySQLOptions) *sqlstore.Store {
	t.Helper()
	o.Logger = zerolog.New(zerolog.NewTestWriter(t)).Level(zerolog.WarnLevel)
	if o.MaxOpen == 0 {
		o.MaxOpen = 6
	}
	s, err := sqlstore.OpenMySQL(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	require.NoError(t, s.Migrate(t.Context()))
	return s
}

func TestMySQL(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) storetest.Env {
		t.Helper()
		dsn := testenv.MySQL(t)
		return storetest.Env{
			Stores:          []store.Store{openMySQL(t, sqlstore.MySQLOptions{DSN: dsn}), openMySQL(t, sqlstore.MySQLOptions{DSN: dsn})},
			CoarseRetention: true,
		}
	})
}
