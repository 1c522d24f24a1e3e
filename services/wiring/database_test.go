package wiring_test

import (
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/config"
	"github.com/carillon-timer/carillon/services/servicetest/devtest"
	"github.com/carillon-timer/carillon/services/wiring"
)

// TestCommandsNeedOneDatabase checks that a DSN of the environment does not silently win over a data
// directory, and the other way around.
func TestCommandsNeedOneDatabase(t *testing.T) {
	t.Parallel()
	const dsn = "carillon:secret@tcp(db:3306)/carillon"
	for name, part := range map[string]config.Part{
		"existing": &wiring.Database{}, "new": &wiring.NewDatabase{},
	} {
		load := func(args []string, env map[string]string) error {
			read := func(key string) (string, bool) { v, ok := env[key]; return v, ok }
			return config.NewSet("test", part).Load(args, read, io.Discard)
		}
		for _, err := range []error{
			load([]string{"-data-dir", "d"}, map[string]string{"CARILLON_MYSQL_DSN": dsn}),
			load([]string{"-mysql-dsn", dsn}, map[string]string{"CARILLON_DATA_DIR": "d"}),
		} {
			require.ErrorContains(t, err, "data-dir: given together with mysql-dsn", name)
			require.NotContains(t, err.Error(), "secret")
		}
		require.NoError(t, load([]string{"-mysql-dsn", dsn}, nil), name)
	}
	require.NoError(t, config.NewSet("test", &wiring.NewDatabase{}).
		Load([]string{"-data-dir", t.TempDir()}, devtest.NoEnv, io.Discard))
}
