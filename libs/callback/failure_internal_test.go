package callback

import (
	"context"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/timer"
)

// TestTimeoutOfConnecting checks that a limit of connecting counts as no connection, and the end of
// the attempt's own time as no answer. The errors of both are the same, and of several texts.
func TestTimeoutOfConnecting(t *testing.T) {
	t.Parallel()
	inTime, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	ended, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	for _, why := range []error{context.DeadlineExceeded, os.ErrDeadlineExceeded} {
		for want, err := range map[timer.Failure]error{
			timer.FailureConnect: &net.OpError{Op: "dial", Net: "tcp", Err: why},
			timer.FailureDNS:     &net.DNSError{UnwrapErr: why, IsTimeout: true},
		} {
			got := failedResult(t.Context(), inTime, err, time.Minute)
			require.Equal(t, want, got.Failure, "%#v", err)
			require.NotContains(t, got.Error, "no answer")
			got = tokenFailure(t.Context(), inTime, err, time.Minute)
			require.Equal(t, timer.FailureAuth, got.Failure)
			require.NotContains(t, got.Error, "no answer")
			for _, callCtx := range []context.Context{ended, lateTimer{inTime}} {
				got = failedResult(t.Context(), callCtx, err, time.Minute)
				require.Equal(t, timeoutResult(time.Minute), got)
				got = tokenFailure(t.Context(), callCtx, err, time.Minute)
				require.Equal(t, "no answer of the token server within 1m0s", got.Error)
			}
		}
	}
	lost := &net.OpError{
		Op: "read", Net: "tcp", Err: os.NewSyscallError("read", syscall.ETIMEDOUT),
	}
	got := failedResult(t.Context(), inTime, lost, time.Minute)
	require.Equal(t, timer.FailureReset, got.Failure, "there was a connection, whose host is gone")
	require.Equal(t, lost.Error(), got.Error)
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: os.ErrPermission}
	got = failedResult(t.Context(), ended, refused, time.Minute)
	require.Equal(t, timer.FailureConnect, got.Failure, "it says more than the end of the time")
}
