package wiring_test

import (
	"io"
	"os"
	"regexp"
	"strings"
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

// TestCommandsTakeMySQLInTheImage checks that a container needs no more than mysql-dsn: what the
// Dockerfile sets contradicts no setting of these commands.
func TestCommandsTakeMySQLInTheImage(t *testing.T) {
	t.Parallel()
	dockerfile, err := os.ReadFile("../../deploy/Dockerfile")
	require.NoError(t, err)
	line := regexp.MustCompile(`(?m)^ENV (CARILLON_.*)$`).FindSubmatch(dockerfile)
	require.NotNil(t, line)
	env := map[string]string{"CARILLON_MYSQL_DSN": "carillon:secret@tcp(db:3306)/carillon"}
	for variable := range strings.FieldsSeq(string(line[1])) {
		name, value, _ := strings.Cut(variable, "=")
		env[name] = value
	}
	require.Contains(t, env, "CARILLON_HTTP_ADDR")
	read := func(key string) (string, bool) { v, ok := env[key]; return v, ok }
	for _, part := range []config.Part{&wiring.Database{}, &wiring.NewDatabase{}} {
		require.NoError(t, config.NewSet("test", part).Load(nil, read, io.Discard))
	}
}
