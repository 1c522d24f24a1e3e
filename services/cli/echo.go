package cli

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/carillon-timer/carillon/libs/certfile"
	"github.com/carillon-timer/carillon/libs/config"
	"github.com/carillon-timer/carillon/libs/health"
	"github.com/carillon-timer/carillon/libs/logging"
	"github.com/carillon-timer/carillon/libs/process"
	"github.com/carillon-timer/carillon/services/allinone"
)

// echo runs the echo endpoint as a server of its own, for a cluster on this machine. It speaks TLS
// alone where it has a certificate, as the API does.
func echo(
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
	var pair *certfile.Pair
	if h.TLSCert != "" {
		if pair, err = certfile.Load(h.TLSCert, h.TLSKey, log); err != nil {
			//nolint:wrapcheck // it names the settings
			return config.Problem(fmt.Errorf("http-tls-cert, http-tls-key: %w", err))
		}
	}
	ln, err := process.Listen(ctx, h.Addr, logging.HTTPListening, log)
	if err != nil {
		return fmt.Errorf("http-addr: %w", err)
	}
	if pair != nil {
		ln = tls.NewListener(ln, pair.Config())
	}
	mux := http.NewServeMux()
	mux.Handle(allinone.EchoPath, allinone.Echo(stdout))
	p := process.New(process.Options{Logger: log, Health: health.New(0), Grace: time.Second})
	p.Intake("http", process.Serve(ln, mux, time.Second, log))
	return p.Run(ctx) //nolint:wrapcheck // it names the part
}
