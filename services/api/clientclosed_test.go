package api_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/process"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/api"
	"github.com/carillon-timer/carillon/services/servicetest/apitest"
)

// waiting is a store whose calls wait until their context ends.
type waiting struct {
	api.Store

	entered chan struct{}
	hold    chan struct{} // ends the creates of new timers, whose context is not the client's
}

func (w waiting) Timer(ctx context.Context, _ string, _ timer.ID) (timer.Timer, error) {
	w.entered <- struct{}{}
	<-ctx.Done()
	return timer.Timer{}, timer.Unavailable("reading a timer", ctx.Err())
}

func (w waiting) Create(
	context.Context, []store.NewTimer, store.Planner,
) ([]store.CreateResult, error) {
	w.entered <- struct{}{}
	<-w.hold
	return nil, timer.Unavailable("creating timers", context.DeadlineExceeded)
}

// TestClientThatHangsUp checks that a client that closes its connection is no error of the server,
// for a read and for a write. Where the server itself closes it, at a stop, it is a 503.
func TestClientThatHangsUp(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		method, path, body string
		stop               bool
		code               string
		logged             string
	}{
		"read": {
			method: http.MethodGet, path: "/api/v2/timers/1?app=a", code: "499",
		},
		"write": {
			method: http.MethodPost, path: "/api/v2/timers", body: apitest.V2Body, code: "499",
		},
		"v1": {
			method: http.MethodPost, path: "/api/timer/v1/def", body: apitest.V1Body, code: "499",
		},
		"stop": {
			method: http.MethodGet, path: "/api/v2/timers/1?app=a", stop: true, code: "503",
			logged: "server unavailable",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			log, reg := new(bytes.Buffer), prometheus.NewRegistry()
			w := waiting{entered: make(chan struct{}, 1), hold: make(chan struct{})}
			f := apitest.Setup(t, func(o *api.Options) {
				w.Store = o.Store
				o.Store, o.Registerer, o.Timeout = w, reg, time.Minute
				o.Logger = zerolog.New(zerolog.SyncWriter(log)).Level(zerolog.InfoLevel)
			})
			defer close(w.hold)
			ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
			require.NoError(t, err)
			running, stop := context.WithCancel(t.Context())
			served := make(chan error, 1)
			grace := time.Minute // the request was counted, and may not have ended yet
			if c.stop {
				grace = time.Millisecond
			}
			serve := process.Serve(ln, f.Api.Handler(), grace, zerolog.Nop())
			go func() { served <- serve(running) }()

			ctx, hangUp := context.WithCancel(t.Context())
			r, err := http.NewRequestWithContext(
				ctx, c.method, "http://"+ln.Addr().String()+c.path, strings.NewReader(c.body))
			require.NoError(t, err)
			answered := make(chan error, 1)
			go func() {
				resp, err := (&http.Client{Transport: &http.Transport{}}).Do(r)
				if err == nil {
					_, err = io.Copy(io.Discard, resp.Body)
					_ = resp.Body.Close()
				}
				answered <- err
			}()
			<-w.entered
			if c.stop {
				stop()
			} else {
				hangUp()
			}
			require.Error(t, <-answered)
			require.Eventually(t, func() bool {
				n, err := testutil.GatherAndCount(reg, "carillon_api_requests_total")
				return err == nil && n == 1
			}, 20*time.Second, 5*time.Millisecond)
			families, err := reg.Gather()
			require.NoError(t, err)
			for _, family := range families {
				if family.GetName() != "carillon_api_requests_total" {
					continue
				}
				for _, label := range family.GetMetric()[0].GetLabel() {
					if label.GetName() == "code" {
						require.Equal(t, c.code, label.GetValue())
					}
				}
			}
			hangUp()
			stop()
			err = <-served
			if c.stop {
				require.Error(t, err, "the grace period was too short")
			} else {
				require.NoError(t, err)
			}
			if c.logged == "" {
				require.Empty(t, log.String())
			} else {
				require.Contains(t, log.String(), c.logged)
			}
		})
	}
}
