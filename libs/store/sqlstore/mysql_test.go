package sqlstore_test

import (
	"testing"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

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

// TestMySQL runs the suite with two stores on each database, as two processes have. Every statement that it sends is one that MySQL
// 8 takes too.
func TestMySQL(t *testing.T) {
	t.Parallel()
	var sent collector
	t.Run("suite", func(t *testing.T) {
		storetest.Run(t, func(t *testing.T) storetest.Env {
			t.Helper()
			dsn := testenv.MySQL(t)
			env := storetest.Env{CoarseRetention: true}
			for range 2 {
				s := openMySQL(t, sqlstore.MySQLOptions{DSN: dsn})
				s.Watch(sent.watch)
				env.Stores = append(env.Stores, s)
			}
			return env
		})
	})
	if len(sent.forms) == 0 {
		t.Skip("no statements were sent: there is no server")
	}
	sent.requireMySQL8(t)
}
