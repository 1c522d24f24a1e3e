package mysqlengine_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store/sqlstore/mysqlengine"
)

func TestDatabasesOfTheServerAreRefused(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"mysql", "SYS", "information_schema", "performance_schema"} {
		_, err := mysqlengine.ParseDSN("u:p@tcp(h:3306)/" + name)
		require.ErrorContains(t, err, name+" is a database of the server itself")
	}
	_, err := mysqlengine.ParseDSN("u:p@tcp(h:3306)/mysql2")
	require.NoError(t, err)
}

// TestWrongDSNsShowTheRightForm for the forms of other libraries.
func TestWrongDSNsShowTheRightForm(t *testing.T) {
	t.Parallel()
	for _, dsn := range []string{
		"mysql://u:hunter2@127.0.0.1:3306/d", "u:hunter2@127.0.0.1:3306/d", "u:hunter2@tcp(h:3306)",
	} {
		_, err := mysqlengine.ParseDSN(dsn)
		require.ErrorContains(t, err, "user:password@tcp(host:3306)/database", dsn)
		require.NotContains(t, err.Error(), "hunter2")
	}
}

// TestReadOnlyServersAreLeft checks that connections to a demoted server end where there are others,
// and where the DSN asks for it.
func TestReadOnlyServersAreLeft(t *testing.T) {
	t.Parallel()
	for dsn, want := range map[string]bool{
		"u:p@tcp(h:3306)/d":                       false,
		"u:p@tcp(h:3306)/d?rejectReadOnly=true":   true,
		"u:p@tcp(h:3306,other:3306)/d":            true,
		"u:p@tcp(h:1,i:1)/d?rejectReadOnly=false": true,
	} {
		cfg, err := mysqlengine.ParseDSN(dsn)
		require.NoError(t, err)
		require.Equal(t, want, cfg.RejectReadOnly, dsn)
	}
}
