package process

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/config"
)

func TestExitCodes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		code int
		text string
	}{
		{nil, 0, ""},
		{config.ErrDone, 0, ""},
		{fmt.Errorf("x: %w", &config.Problems{List: []string{"a", "b"}}), 2, "a\nb\n"},
		{errors.New("no disk"), 1, "carillon: no disk\n"},
	} {
		var out bytes.Buffer
		require.Equal(t, c.code, exitCode("carillon", c.err, &out))
		require.Equal(t, c.text, out.String())
	}
	require.NotEmpty(t, Version())
}
