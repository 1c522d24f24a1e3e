package process

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/carillon-timer/carillon/libs/logging"
)

// Limits of every HTTP server: a client that sends or reads slower than this is cut off, so that it cannot hold a connection for ever.
const (
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 30 * time.Second
	writeTimeout      = 60 * time.Second
	idleTimeout       = 2 * time.Minute
	maxHeaderBytes    = 64 << 10
)

// Listen opens a TCP listener and logs the phrase with its address: with port 0, the way to learn which one it got.
func Listen(ctx context.Context, addr, phrase string, log zerolog.Logger) (net.Listener, error) {
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listening on %s: %w", addr, err)
	}
	log.Info().Str(logging.Addr, ln.Addr().String()).Msg(phrase)
	return ln, nil
}

// Serve returns a part that serves h on ln until its context ends, then takes no more connections and answers the requests
// in hand, for at most grace.
func Serve(ln net.Listener, h http.Handler, grace time.Duration) func(context.Context) error {
	return func(ctx context.Context) error {
		srv := &http.Server{
			Handler: h, ReadHeaderTimeout: readHeaderTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout,
			IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes,
			BaseContext: func(net.Listener) context.Context { return context.WithoutCancel(ctx) }, // in hand is finished, not cancelled
		}
		served := make(chan error, 1)
		go func() { served <- srv.Serve(ln) }()
		select {
		case err := <-served:
			return fmt.Errorf("serving HTTP: %w", err)
		case <-ctx.Done():
		}
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
		defer cancel()
		err := srv.Shutdown(stop)
		if err != nil {
			err = errors.Join(fmt.Errorf("answering the requests in hand: %w", err), srv.Close())
		}
		if end := <-served; !errors.Is(end, http.ErrServerClosed) {
			err = errors.Join(err, fmt.Errorf("serving HTTP: %w", end))
		}
		return err
	}
}

// Route is one more thing that the admin listener serves.
type Route struct {
	Pattern string // as http.ServeMux takes it
	Handler http.Handler
}

// Admin serves probes, metrics and profiles, and what else it is given, at addr from now on until everything else is closed: a process that waits for its
// servers must be able to say so. Call it before anything that may have to wait.
func (p *Process) Admin(ctx context.Context, addr string, metrics prometheus.Gatherer, more ...Route) error {
	ln, err := Listen(ctx, addr, logging.AdminListening, p.o.Logger)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/", p.o.Health.Handler(metrics))
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	for _, r := range more {
		mux.Handle(r.Pattern, r.Handler)
	}

	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan error, 1)
	go func() { done <- Serve(ln, mux, time.Second)(running) }()
	p.OnClose("admin listener", func(context.Context) error {
		stop()
		return <-done
	})
	return nil
}
