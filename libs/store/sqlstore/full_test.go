package sqlstore_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/sqlstore"
	"github.com/carillon-timer/carillon/libs/timer"
)

// TestSQLiteReportsFullDisk checks the message of a database without room, since a retry will not
// help.
func TestSQLiteReportsFullDisk(t *testing.T) {
	t.Parallel()
	s := openSQLite(t, sqlstore.SQLiteOptions{})
	_, err := s.Exec(t.Context(), "PRAGMA max_page_count=1") // SQLite uses the present size
	require.NoError(t, err)
	require.NoError(t, s.LastWriteError())
	for i := 0; ; i++ {
		require.Less(t, i, 1000, "it is never full")
		item := store.NewTimer{App: "app", Name: fmt.Sprint("t", i)}
		item.Definition.Target.Body = strings.Repeat("x", 10_000)
		_, err = s.Create(t.Context(), []store.NewTimer{item}, nil)
		if err != nil {
			break
		}
	}
	require.Equal(t, timer.CodeUnavailable, timer.CodeOf(err))
	var e *timer.Error
	require.ErrorAs(t, err, &e)
	require.Contains(t, e.Msg, "no room left")
	_, err = s.List(t.Context(), store.Query{App: "app", Limit: 1})
	require.NoError(t, err, "it can still be read")
	require.NoError(t, s.Ping(t.Context()))
	require.ErrorContains(t, s.LastWriteError(), "no room left")
}

func TestMySQLReportsFullDisk(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		number  uint16
		message string
		full    bool
	}{
		{1114, "The table 'timers' is full", true},
		{1021, "Disk full (/var/lib/mysql/ibtmp1); waiting for someone to free some space... (errno: 28 \"No space left on device\")", true},
		{1030, "Got error 28 \"No space left on device\" from storage engine InnoDB", true},
		{1030, "Got error 28 from storage engine", true},
		{1030, "Got error 128 from storage engine", false},
		{1030, "Got error 168 \"Unknown (generic) error from engine\" from storage engine InnoDB", false},
		{1026, "Error writing file './binlog.000003' (errno: 28 \"No space left on device\")", true},
		{3, "Error writing file './MYfd=28' (OS errno 28 - No space left on device)", true},
		{20, "Disk is full writing './x' (Errcode: 28). Waiting for someone to free space...", true},
		{1290, "The MariaDB server is running with the --read-only option", false},
		{1213, "Deadlock found", false},
		{1020, "Record has changed since last read in table 'fires'; try restarting transaction", false},
	} {
		err := sqlstore.TranslateMySQL(
			"creating timers",
			fmt.Errorf(
				"in a transaction: %w",
				&mysql.MySQLError{Number: c.number, Message: c.message},
			),
		)
		require.Equal(t, timer.CodeUnavailable, timer.CodeOf(err), c.message)
		var e *timer.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, c.full, strings.Contains(e.Msg, "no room left"), c.message)
		if !c.full {
			require.Contains(t, e.Msg, "creating timers: the database is ", c.message)
		}
	}
}
