package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/timer"
)

// TestErrorsOfBackupsSayWhatToDo where the same command may succeed later.
func TestErrorsOfBackupsSayWhatToDo(t *testing.T) {
	t.Parallel()
	const then = "repeat the command"
	full := &fs.PathError{Op: "write", Path: "timers-000001", Err: syscall.ENOSPC}
	other := errors.New("a is damaged: use another backup")
	stopped, stop := context.WithCancel(t.Context())
	stop()
	for _, tt := range []struct {
		ctx  context.Context //nolint:containedctx // of one call
		err  error
		want string
	}{
		{stopped, context.Canceled, "stopped: " + then},
		{
			t.Context(), fmt.Errorf("writing: %w", full),
			"writing: write timers-000001: no space left on device: make room on that disk; " + then,
		},
		{t.Context(), timer.Unavailable("loading", errors.New("refused")), "loading: refused; " + then},
		{t.Context(), other, other.Error()},
	} {
		err := withRemedy(tt.ctx, tt.err, then)
		require.EqualError(t, err, tt.want)
		require.Equal(t, tt.ctx == stopped, !errors.Is(err, tt.err))
	}
	require.NoError(t, withRemedy(stopped, nil, then))
}
