package egress_test

import (
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/egress"
	"github.com/carillon-timer/carillon/libs/timer"
)

// TestADeadConnectionIsNoticedBeforeTheThirdAttempt reads the options of a socket, because a test
// cannot take a host away.
func TestADeadConnectionIsNoticedBeforeTheThirdAttempt(t *testing.T) {
	t.Parallel()
	address, port := listen(t)
	d := dialer(t, policy(t, egress.Options{}, "127.0.0.1:"+port), egress.DialerOptions{})
	c, err := d.DialContext(t.Context(), "tcp", address)
	require.NoError(t, err)
	defer c.Close()
	raw, err := c.(*net.TCPConn).SyscallConn()
	require.NoError(t, err)
	option := func(level, name int) (v int) {
		require.NoError(t, raw.Control(func(fd uintptr) {
			v, err = syscall.GetsockoptInt(int(fd), level, name)
		}))
		require.NoError(t, err)
		return v
	}
	require.NotZero(t, option(syscall.SOL_SOCKET, syscall.SO_KEEPALIVE))
	seconds := option(syscall.IPPROTO_TCP, syscall.TCP_KEEPIDLE) +
		option(syscall.IPPROTO_TCP, syscall.TCP_KEEPINTVL)*
			option(syscall.IPPROTO_TCP, syscall.TCP_KEEPCNT)
	retry := timer.DefaultRetry()
	third := 2*time.Duration(retry.Timeout) + retry.WaitAfter(1) + retry.WaitAfter(2)
	require.Less(t, time.Duration(seconds)*time.Second, third)
}
