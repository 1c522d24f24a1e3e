package cli_test

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/apikey"
	"github.com/carillon-timer/carillon/libs/encryption"
	"github.com/carillon-timer/carillon/libs/process"
	"github.com/carillon-timer/carillon/services/cli"
	"github.com/carillon-timer/carillon/services/servicetest/devtest"
)

// printed returns the output of a command.
func printed(
	t *testing.T,
	do func(context.Context, []string, process.Env, io.Writer, io.Writer) error,
	args ...string,
) string {
	t.Helper()
	var out bytes.Buffer
	require.NoError(t, do(t.Context(), args, devtest.NoEnv, &out, io.Discard))
	return strings.TrimSpace(out.String())
}

func TestKeyCommands(t *testing.T) {
	t.Parallel()
	a, b := printed(t, cli.AdminKey), printed(t, cli.AdminKey)
	require.NotEqual(t, a, b)
	_, err := apikey.Parse(a)
	require.NoError(t, err)
	r, err := encryption.ParseKeyring(
		encryption.NewSecret(printed(t, cli.EncryptionKey, "-id", "k7")),
	)
	require.NoError(t, err)
	require.Equal(t, "k7", r.First())
	_, err = encryption.ParseKeyring(encryption.NewSecret(
		printed(t, cli.EncryptionKey) + "\n" + printed(t, cli.EncryptionKey),
	))
	require.NoError(t, err, "two keys of one minute have different ids")
	require.ErrorContains(
		t,
		cli.EncryptionKey(
			t.Context(),
			[]string{"-id", "a b"},
			devtest.NoEnv,
			io.Discard,
			io.Discard,
		),
		"id: ",
	)
}
