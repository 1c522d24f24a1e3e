package chaos

import (
	"bufio"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/e2e/cluster"
)

// TestCommitProxyDropsAnswers checks that a dropped COMMIT takes effect and its answer does not
// arrive.
func TestCommitProxyDropsAnswers(t *testing.T) {
	t.Parallel()
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	done := make(chan string, 10)
	go func() { // a server that accepts packets of 4 bytes, a command and 6 characters
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				b := make([]byte, 11)
				for {
					if _, err := bufio.NewReader(c).Read(b); err != nil {
						return
					}
					done <- string(b[5:])
					_, _ = c.Write([]byte("ok"))
				}
			}()
		}
	}()
	s := cluster.Servers{MySQLDSN: "u:p@tcp(" + ln.Addr().String() + ")/d"}
	th, err := startCommitProxy(t.Context(), &s)
	require.NoError(t, err)
	defer th.close()
	ask := func(query string) error {
		c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", th.ln.Addr().String())
		require.NoError(t, err)
		defer c.Close()
		require.NoError(t, c.SetDeadline(time.Now().Add(5*time.Second)))
		_, err = c.Write(append([]byte{7, 0, 0, 0, 3}, query...))
		require.NoError(t, err)
		_, err = c.Read(make([]byte, 2))
		return err
	}
	require.NoError(t, ask("COMMIT"))
	require.Equal(t, "COMMIT", <-done)
	th.dropAnswers(1)
	require.NoError(t, ask("SELECT"))
	require.Equal(t, "SELECT", <-done)
	require.Error(t, ask("COMMIT"))
	require.Equal(t, "COMMIT", <-done, "the server executed it")
	require.EqualValues(t, 1, th.dropped())
}
