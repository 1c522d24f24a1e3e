package allinone

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/carillon-timer/carillon/libs/callback"
	"github.com/carillon-timer/carillon/libs/config"
	"github.com/carillon-timer/carillon/libs/health"
	"github.com/carillon-timer/carillon/libs/logging"
	"github.com/carillon-timer/carillon/libs/process"
)

// EchoPath is the path of the echo endpoint.
const EchoPath = "/dev/echo"

const maxEchoBody = 200 // bytes of a body that are printed

// Echo returns an endpoint that prints a line for each callback: the fire, its lateness, and the
// body.
func Echo(w io.Writer) http.Handler {
	var mu sync.Mutex
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		now := time.Now()
		body, err := io.ReadAll(io.LimitReader(r.Body, maxEchoBody))
		if err != nil {
			http.Error(rw, "the body could not be read", http.StatusBadRequest)
			return
		}
		late := "not a callback of a timer"
		if due, err := time.Parse(time.RFC3339, r.Header.Get(callback.HeaderDue)); err == nil {
			late = fmt.Sprintf(
				"due %s, %+d ms",
				due.Format("15:04:05.000"),
				now.Sub(due).Milliseconds(),
			)
		}
		mu.Lock()
		defer mu.Unlock()
		// Quoted, so that a header cannot control the terminal.
		fmt.Fprintf(
			w,
			"CALL %s  fire %q  attempt %q  %s %q\n",
			late,
			r.Header.Get(callback.HeaderFireID),
			r.Header.Get(callback.HeaderAttempt),
			r.Method,
			body,
		)
		rw.WriteHeader(http.StatusNoContent)
	})
}

// EchoServer runs the echo endpoint as a server of its own, for a cluster on this machine.
func EchoServer(
	ctx context.Context,
	args []string,
	env process.Env,
	stdout, stderr io.Writer,
) error {
	var (
		h config.HTTP
		l config.Log
	)
	if err := config.NewSet("carillon echo", &h, &l).Load(args, env, stdout); err != nil {
		return err //nolint:wrapcheck // each problem is told as it is
	}
	log, err := logging.New(stderr, l.Level, l.Format, "echo")
	if err != nil {
		return err //nolint:wrapcheck // it says what it is about
	}
	ln, err := process.Listen(ctx, h.Addr, logging.HTTPListening, log)
	if err != nil {
		return fmt.Errorf("http-addr: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle(EchoPath, Echo(stdout))
	p := process.New(process.Options{Logger: log, Health: health.New(0), Grace: time.Second})
	p.Intake("http", process.Serve(ln, mux, time.Second, log))
	return p.Run(ctx) //nolint:wrapcheck // it names the part
}
