package process

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"net/http/pprof"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/carillon-timer/carillon/libs/egress"
	"github.com/carillon-timer/carillon/libs/logging"
)

// Limits of every HTTP server. A client that sends or reads more slowly is disconnected, so that it
// cannot hold a connection for ever.
const (
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 30 * time.Second
	writeTimeout      = 60 * time.Second
	idleTimeout       = 2 * time.Minute
	maxHeaderBytes    = 64 << 10
)

// Listen opens a TCP listener and logs the phrase with its address, which tells the chosen port for
// port 0.
func Listen(ctx context.Context, addr, phrase string, to zerolog.Logger) (net.Listener, error) {
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listening on %s: %w", addr, err)
	}
	to.Info().Str(logging.Addr, ln.Addr().String()).Msg(phrase)
	return ln, nil
}

// Serve returns a part that serves h on ln until its context ends. Then it accepts no more
// connections and answers the requests in flight, for at most grace. Errors of the server itself go
// to the logger.
func Serve(
	ln net.Listener,
	h http.Handler,
	grace time.Duration,
	to zerolog.Logger,
) func(context.Context) error {
	return func(ctx context.Context) error {
		srv := &http.Server{
			Handler:           h,
			ReadHeaderTimeout: readHeaderTimeout,
			ReadTimeout:       readTimeout,
			WriteTimeout:      writeTimeout,
			IdleTimeout:       idleTimeout,
			MaxHeaderBytes:    maxHeaderBytes,
			ErrorLog:          errorLog(to),
			// Requests in flight are finished, not cancelled.
			BaseContext: func(net.Listener) context.Context {
				return context.WithValue(context.WithoutCancel(ctx), stoppingKey{}, ctx.Done())
			},
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
			err = errors.Join(fmt.Errorf("answering the requests in flight: %w", err), srv.Close())
		}
		if end := <-served; !errors.Is(end, http.ErrServerClosed) {
			err = errors.Join(err, fmt.Errorf("serving HTTP: %w", end))
		}
		return err
	}
}

// stoppingKey is the context key of the channel that Stopping returns.
type stoppingKey struct{}

// Stopping returns a channel that is closed when the server of a request stops. An answer without
// an end must then end, or the stop lasts for the whole grace period. Outside of Serve it is nil.
func Stopping(ctx context.Context) <-chan struct{} {
	stopping, _ := ctx.Value(stoppingKey{}).(<-chan struct{})
	return stopping
}

// errorLog returns a logger for net/http's own errors, such as a panic or a failed accept. Any
// client can cause such lines, so only some are logged each second.
func errorLog(to zerolog.Logger) *log.Logger { //nolint:forbidigo // net/http takes no other
	const perSecond = 10
	//nolint:forbidigo // it writes to the logger that is passed in
	return log.New(
		lines{to.Sample(&zerolog.BurstSampler{Burst: perSecond, Period: time.Second})},
		"",
		0,
	)
}

// lines writes each line of net/http to the logger.
type lines struct{ to zerolog.Logger }

// Write logs one line, which may contain the stack of a panic.
func (l lines) Write(b []byte) (int, error) {
	l.to.Warn().Str(logging.Detail, strings.TrimSpace(string(b))).Msg("http server")
	return len(b), nil
}

// Route is an additional route of the admin listener.
type Route struct {
	Pattern string // in the syntax of http.ServeMux
	Handler http.Handler
}

// AdminAddr returns the address of the admin listener, after Admin has returned.
func (p *Process) AdminAddr() string { return p.adminAddr }

// Admin serves probes, metrics, profiles and the given routes at addr until everything else is
// closed. Call it before anything that may wait, because a process that waits for its servers must
// be able to report it.
func (p *Process) Admin(
	ctx context.Context,
	addr string,
	metrics prometheus.Gatherer,
	more ...Route,
) error {
	ln, err := Listen(ctx, addr, logging.AdminListening, p.o.Logger)
	if err != nil {
		return err
	}
	p.adminAddr = ln.Addr().String()
	mux := http.NewServeMux()
	mux.Handle("/", p.o.Health.Handler(metrics))
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	// cmdline is left out: flags may have secrets. Index answers 404 to it.
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	for _, r := range more {
		mux.Handle(r.Pattern, r.Handler)
	}

	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if egress.IsCallback(r) {
			http.Error(w, "a timer's callback may not call Carillon itself", http.StatusForbidden)
			return
		}
		mux.ServeHTTP(w, r)
	})
	if p.o.Listening != nil {
		p.o.Listening(ln.Addr())
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan error, 1)
	go func() { done <- Serve(ln, handler, time.Second, p.o.Logger)(running) }()
	p.OnClose("admin listener", func(context.Context) error {
		stop()
		return <-done
	})
	return nil
}
