package cluster

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestMain acts as a service if the test binary runs as one.
func TestMain(m *testing.M) {
	switch os.Getenv("CARILLON_FAKE") {
	case "":
		os.Exit(m.Run())
	case "broken":
		fmt.Fprintln(os.Stderr, "mysql-dsn: missing")
		os.Exit(2)
	default:
		fake()
	}
}

func fake() {
	ln, err := net.Listen("tcp", os.Getenv("CARILLON_ADMIN_ADDR"))
	if err != nil {
		os.Exit(1)
	}
	started := time.Now()
	http.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		if time.Since(started) < 100*time.Millisecond {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	http.HandleFunc("/metrics", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "# HELP x y\nx{a=\"1\",b=\"2\"} 3\nx{a=\"2\"} 4.5\nxy 7\nx_sum 9\n")
	})
	fmt.Fprintln(os.Stderr, "not JSON")
	fmt.Fprintf(os.Stderr, `{"level":"info","message":"http listening","addr":"127.0.0.1:7"}`+"\n")
	fmt.Fprintf(os.Stderr, `{"level":"info","addr":%q,"message":"admin listening"}`+"\n", ln.Addr())
	go func() { _ = http.Serve(ln, nil) }()
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGTERM)
	<-c
	os.Exit(0)
}

func fakeProcess(t *testing.T, kind string) *Process {
	t.Helper()
	o := &Options{Bin: "/", Dir: t.TempDir()}
	exe, err := os.Executable()
	require.NoError(t, err)
	p := newProcess(o, "fake-0", exe, true, nil, map[string]string{"CARILLON_FAKE": kind})
	t.Cleanup(func() { p.Kill() })
	return p
}

func TestProcessLifecycle(t *testing.T) {
	t.Parallel()
	p := fakeProcess(t, "good")
	require.False(t, p.Running())
	require.NoError(t, p.Start(t.Context()))
	require.Equal(t, "http://127.0.0.1:7", p.HTTP())
	first := p.Admin()
	require.ErrorContains(t, p.Start(t.Context()), "is running")

	m, err := p.Metrics(t.Context())
	require.NoError(t, err)
	require.InDelta(t, 7.5, m.Sum("x"), 0)
	require.InDelta(t, 3, m.Sum("x", `a="1"`, `b="2"`), 0)
	require.InDelta(t, 15, Sum(t.Context(), []*Process{p, p}, "x"), 0)

	require.NoError(t, p.Stop(t.Context()))
	require.False(t, p.Running())
	require.Empty(t, p.HTTP())
	require.NoError(t, p.Start(t.Context()), "a second start, on another port")
	require.NotEqual(t, first, p.Admin())
	require.Contains(t, p.Tail(1), p.Admin()[len("http://"):])

	require.NoError(t, p.Pause())
	require.Error(t, get(t.Context(), p.Admin()+"/readyz"))
	require.NoError(t, p.Resume())
	require.NoError(t, get(t.Context(), p.Admin()+"/readyz"))

	ports, err := p.Ports()
	require.NoError(t, err)
	_, port, err := net.SplitHostPort(p.Admin()[len("http://"):])
	require.NoError(t, err)
	n, err := strconv.ParseUint(port, 10, 16)
	require.NoError(t, err)
	require.True(t, ports[uint16(n)], "%d is not among %v", n, ports)

	pid := p.PID()
	require.NoError(t, p.Pause())
	at := p.Kill()
	require.WithinDuration(t, time.Now(), at, 10*time.Second)
	require.ErrorIs(t, syscall.Kill(pid, 0), syscall.ESRCH, "a frozen process is killed and reaped")
	require.Error(t, p.Signal(syscall.SIGTERM))
	p.Kill()
}

func TestProcessThatCannotStart(t *testing.T) {
	t.Parallel()
	require.ErrorContains(t, fakeProcess(t, "broken").Start(t.Context()), "mysql-dsn: missing")
	p := newProcess(&Options{Bin: t.TempDir(), Dir: t.TempDir()}, "x", "absent", false, nil)
	require.ErrorContains(t, p.Start(t.Context()), "no such file")
}
