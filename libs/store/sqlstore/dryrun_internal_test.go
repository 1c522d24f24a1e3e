package sqlstore

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/apps"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/sqldb"
)

// TestDryRunsCacheNoApp checks that the id of an app that was rolled back is not used later: it
// belongs to no app, or to one that another process has made meanwhile.
func TestDryRunsCacheNoApp(t *testing.T) {
	t.Parallel()
	s, err := OpenSQLite(t.Context(), SQLiteOptions{})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	require.NoError(t, s.Migrate(t.Context()))
	_, rows := apps.New(s.db)
	ctx, ids, err := rows.Make(store.WithDryRun(t.Context()), []string{"new"})
	require.NoError(t, err)
	err = s.db.Write(ctx, "testing", func(ctx context.Context, c sqldb.Runner) error {
		names, err := rows.Names(ctx, c, []int64{ids["new"]})
		require.Equal(t, "new", names[ids["new"]])
		return err
	})
	require.NoError(t, err)
	id, err := rows.ID(t.Context(), "new")
	require.NoError(t, err)
	require.Zero(t, id)
}
