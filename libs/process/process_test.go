package process_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/carillon-timer/carillon/libs/health"
	"github.com/carillon-timer/carillon/libs/logging"
	"github.com/carillon-timer/carillon/libs/process"
)

// asProgram makes the test binary be a program that says what happens to it. When it is told to
// stop, it does so at the end of its input.
const asProgram = "TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		process.Main("program", func(
			ctx context.Context, _ []string, _ process.Env, stdout, _ io.Writer,
		) error {
			fmt.Fprintln(stdout, "started, ignores a hangup:", signal.Ignored(syscall.SIGHUP))
			<-ctx.Done()
			fmt.Fprintln(stdout, "stopping")
			_, err := io.Copy(io.Discard, os.Stdin)
			fmt.Fprintln(stdout, "stopped")
			return err
		})
	}
	goleak.VerifyTestMain(m)
}

// TestHangupStopsInOrder checks that a process whose terminal is lost stops as by SIGTERM, also if
// the signal comes twice, and that one under nohup goes on.
func TestHangupStopsInOrder(t *testing.T) {
	t.Parallel()
	caught := make(
		chan os.Signal,
		1,
	) // the programs ignore what the tests ignore, such as under nohup
	signal.Notify(caught, syscall.SIGHUP)
	defer signal.Stop(caught)
	for script, signals := range map[string][]os.Signal{
		`exec "$0"`:              {syscall.SIGHUP, syscall.SIGHUP},
		`trap '' HUP; exec "$0"`: {syscall.SIGTERM, syscall.SIGHUP},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		run := exec.CommandContext(ctx, "sh", "-c", script, os.Args[0])
		run.Env = append(os.Environ(), asProgram+"=1")
		input, err := run.StdinPipe()
		require.NoError(t, err)
		output, err := run.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, run.Start())
		lines := bufio.NewScanner(output)
		says := func(want string) {
			require.True(t, lines.Scan(), "it ended instead of: %s", want)
			require.Equal(t, want, lines.Text(), script)
		}
		ignored := signals[0] == syscall.SIGTERM
		says(fmt.Sprintf("started, ignores a hangup: %t", ignored))
		require.NoError(t, run.Process.Signal(signals[0]))
		says("stopping")
		require.NoError(t, run.Process.Signal(signals[1]))
		require.NoError(t, input.Close())
		says("stopped")
		require.NoError(t, run.Wait())
	}
}

// eventLog records events in order.
type eventLog struct {
	mu    sync.Mutex
	lines []string
}

func (d *eventLog) note(s string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, s)
}

func (d *eventLog) read() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.lines)
}

func (d *eventLog) part(name string, finish time.Duration) func(context.Context) error {
	return func(ctx context.Context) error {
		<-ctx.Done()
		time.Sleep(finish)
		d.note(name + " ended")
		return nil
	}
}

func (d *eventLog) closer(name string) func(context.Context) error {
	return func(context.Context) error { d.note(name + " closed"); return nil }
}

func TestOrderOfAStop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h, d := health.New(0), &eventLog{}
		p := process.New(
			process.Options{
				Logger: zerolog.Nop(),
				Health: h,
				Drain:  2 * time.Second,
				Grace:  10 * time.Second,
			},
		)
		p.OnClose("store", d.closer("store"))
		p.OnClose("bus", d.closer("bus"))
		p.Intake("http", d.part("http", 3*time.Second))
		p.Work("executor", d.part("executor", time.Second))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- p.Run(ctx) }()
		time.Sleep(time.Minute)
		_, ready := h.Run(t.Context())
		require.True(t, ready)

		stop := time.Now()
		cancel()
		synctest.Wait()
		_, ready = h.Run(t.Context())
		require.False(t, ready, "not ready before anything stops")
		require.Empty(t, d.read())
		require.NoError(t, <-done)
		require.Equal(t, 6*time.Second, time.Since(stop))
		require.Equal(
			t,
			[]string{"http ended", "executor ended", "bus closed", "store closed"},
			d.read(),
		)
		require.NoError(t, p.Close())
		require.Len(t, d.read(), 4, "closed once")
	})
}

func TestPartThatFailsStopsAll(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &eventLog{}
		p := process.New(
			process.Options{
				Logger: zerolog.Nop(),
				Health: health.New(0),
				Drain:  time.Hour,
				Grace:  time.Second,
			},
		)
		p.Work("good", d.part("good", 0))
		boom := errors.New("boom")
		p.Work("bad", func(context.Context) error { time.Sleep(time.Second); return boom })
		err := p.Run(t.Context())
		require.ErrorIs(t, err, boom)
		require.ErrorContains(t, err, "running bad")
		require.Equal(t, []string{"good ended"}, d.read())

		p = process.New(
			process.Options{Logger: zerolog.Nop(), Health: health.New(0), Grace: time.Second},
		)
		p.Work("early", func(context.Context) error { return nil })
		require.ErrorContains(t, p.Run(t.Context()), "early ended by itself")
	})
}

func TestSlowPartIsAbandoned(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &eventLog{}
		p := process.New(
			process.Options{Logger: zerolog.Nop(), Health: health.New(0), Grace: time.Second},
		)
		p.OnClose("store", d.closer("store"))
		p.Work("stuck", d.part("stuck", time.Minute))
		p.Work("quick", d.part("quick", 0))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.EqualError(t, p.Run(ctx), "not stopped within 6s: stuck")
		require.Equal(t, []string{"quick ended", "store closed"}, d.read())
		time.Sleep(2 * time.Minute)
	})
}

func TestServeAnswersRequestsInFlight(t *testing.T) {
	t.Parallel()
	ln, err := process.Listen(t.Context(), "127.0.0.1:0", logging.HTTPListening, zerolog.Nop())
	require.NoError(t, err)
	entered, leave := make(chan struct{}), make(chan struct{})
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(entered)
		<-leave
		if r.Context().Err() == nil {
			_, _ = io.WriteString(w, "done")
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- process.Serve(ln, h, 10*time.Second, zerolog.Nop())(ctx) }()

	body := make(chan string, 1)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	go func() {
		resp, err := client.Get("http://" + ln.Addr().String())
		if err != nil {
			body <- err.Error()
			return
		}
		defer resp.Body.Close()
		b, _ := io.ReadAll(resp.Body)
		body <- string(b)
	}()
	<-entered
	cancel()
	require.Eventually(t, func() bool {
		resp, err := client.Get("http://" + ln.Addr().String())
		if err == nil {
			resp.Body.Close()
		}
		return err != nil
	}, 30*time.Second, 10*time.Millisecond, "takes no more")
	close(leave)
	require.Equal(t, "done", <-body)
	require.NoError(t, <-served)
}

func TestAdminListener(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	h := health.New(0)
	h.SetError("mysql", errors.New("waiting"))
	p := process.New(process.Options{Logger: zerolog.New(&out), Health: h, Grace: time.Second})
	require.NoError(t, p.Admin(t.Context(), "127.0.0.1:0", prometheus.NewRegistry()))
	var line struct{ Addr, Message string }
	require.NoError(t, json.Unmarshal(out.Bytes(), &line))
	require.Equal(t, "admin listening", line.Message)

	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for path, want := range map[string]int{"/livez": 200, "/readyz": 503, "/metrics": 200, "/debug/pprof/": 200, "/x": 404} {
		resp, err := client.Get("http://" + line.Addr + path)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, want, resp.StatusCode, path)
	}
	resp, err := client.Get("http://" + line.Addr + "/debug/pprof/cmdline")
	require.NoError(t, err)
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, errors.Join(err, resp.Body.Close()))
	require.Equal(t, http.StatusNotFound, resp.StatusCode)
	require.NotContains(t, string(body), os.Args[0], "flags may have secrets")
	require.Error(t, p.Admin(t.Context(), line.Addr, prometheus.NewRegistry()), "taken")
	require.NoError(t, p.Close())
}

// TestTheAdminListenerRefusesCallbacks checks that timers of any process get neither profiles nor
// metrics.
func TestTheAdminListenerRefusesCallbacks(t *testing.T) {
	t.Parallel()
	var at net.Addr
	p := process.New(
		process.Options{
			Logger:    zerolog.Nop(),
			Health:    health.New(0),
			Listening: func(a net.Addr) { at = a },
		},
	)
	require.NoError(t, p.Admin(t.Context(), "127.0.0.1:0", prometheus.NewRegistry()))
	defer func() { require.NoError(t, p.Close()) }()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for path, header := range map[string]string{"/livez": "", "/debug/pprof/symbol": "Carillon-Fire-Id", "/metrics": "Carillon-Token-Request"} {
		q, err := http.NewRequestWithContext(
			t.Context(),
			http.MethodGet,
			"http://"+at.String()+path,
			http.NoBody,
		)
		require.NoError(t, err)
		if header != "" {
			q.Header.Set(header, "1-2")
		}
		resp, err := client.Do(q)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, header != "", resp.StatusCode == http.StatusForbidden, path)
	}
}

// TestServersLogToTheLogger checks that net/http's messages go to the logger, not to stderr.
func TestServersLogToTheLogger(t *testing.T) {
	t.Parallel()
	ln, err := process.Listen(t.Context(), "127.0.0.1:0", logging.HTTPListening, zerolog.Nop())
	require.NoError(t, err)
	var mu sync.Mutex
	var out bytes.Buffer
	log := zerolog.New(zerolog.SyncWriter(writer(func(b []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		return out.Write(b)
	})))
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	h := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("boom") })
	go func() { served <- process.Serve(ln, h, time.Second, log)(ctx) }()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	_, err = client.Get("http://" + ln.Addr().String())
	require.Error(t, err)
	cancel()
	require.NoError(t, <-served)
	mu.Lock()
	defer mu.Unlock()
	require.Contains(t, out.String(), `"level":"warn"`)
	require.Contains(t, out.String(), `"message":"http server"`)
	require.Contains(t, out.String(), "panic serving")
	require.Contains(t, out.String(), "boom")
}

type writer func([]byte) (int, error)

func (w writer) Write(b []byte) (int, error) { return w(b) }
