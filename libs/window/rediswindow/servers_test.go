package rediswindow_test

import (
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// server is a Redis server of one test, without persistence. The test may kill it.
type server struct {
	path, addr, port string
	cmd              *exec.Cmd
}

func ownServer(t *testing.T) *server {
	t.Helper()
	path, err := exec.LookPath("redis-server")
	if err != nil {
		if strings.Contains(os.Getenv("CARILLON_TEST_REQUIRE"), "redis") {
			t.Fatal("redis-server is not installed, and CARILLON_TEST_REQUIRE asks for it")
		}
		t.Skip("redis-server is not installed: restarts of Redis go untested")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	addr := l.Addr().String()
	require.NoError(t, l.Close())
	_, port, err := net.SplitHostPort(addr)
	require.NoError(t, err)
	s := &server{path: path, addr: addr, port: port}
	t.Cleanup(func() { s.kill(t) })
	return s
}

func (s *server) start(t *testing.T, args ...string) {
	t.Helper()
	s.cmd = exec.Command(s.path, append([]string{
		"--port",
		s.port,
		"--bind",
		"127.0.0.1",
		"--save",
		"",
		"--appendonly",
		"no",
		"--dir",
		t.TempDir(),
	}, args...)...)
	require.NoError(t, s.cmd.Start())
}

func (s *server) kill(t *testing.T) {
	t.Helper()
	if s.cmd == nil {
		return
	}
	require.NoError(t, s.cmd.Process.Kill())
	_ = s.cmd.Wait() // returns an error, because it was killed
	s.cmd = nil
}
