package allinone

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"

	"github.com/carillon-timer/carillon/libs/config"
	"github.com/carillon-timer/carillon/libs/process"
	"github.com/carillon-timer/carillon/services/assembly"
)

// Dev runs everything in one process: a SQLite file in the data directory, an in-memory bus and window. Its API has a bell
// beside it, so that a new user can hear a timer ring without an endpoint of his own.
func Dev(ctx context.Context, args []string, env process.Env, stdout, stderr io.Writer) error {
	s := &assembly.Settings{}
	s.OpenOnLoopback = true
	s.Callback.AllowLoopback = true // on one's own machine, what one calls is on one's own machine
	return assembly.Run(ctx, assembly.Program{
		Name: "carillon dev", Service: "dev", Settings: s, Parts: []config.Part{&s.Data}, Open: assembly.OpenEmbedded, Stdout: stdout,
		Roles: []assembly.Role{
			assembly.Migrator(), assembly.Scheduler(), assembly.Trigger(), assembly.Executor(), assembly.API(),
		},
		Prepare: func(k *assembly.Kit) { k.HTTPHandlers = map[string]http.Handler{BellPath: Bell(stdout)} },
		Started: func(k *assembly.Kit) error { return welcome(stdout, k.HTTPAddr, k.HTTPAddr) },
	}, args, env, stderr)
}

// welcome prints where the API is, and the line that makes a timer ring a bell.
func welcome(w io.Writer, apiAddr, bellAddr string) error {
	_, err := fmt.Fprintf(w, `
Carillon is at http://%[1]s. In another terminal, this makes a timer ring here in 3 seconds:

curl -s http://%[1]s/api/v2/timers -H 'Content-Type: application/json' -d '{"app":"demo","name":"hello-'$(date +%%s)'","status":"active","schedule":{"kind":"delay","delay":"3s"},"target":{"kind":"http","url":"http://%[2]s%[3]s","method":"POST","body":"hello"}}'

`, reachable(apiAddr), reachable(bellAddr), BellPath)
	if err != nil {
		return fmt.Errorf("greeting: %w", err)
	}
	return nil
}

// reachable turns an address that something listens on into one that can be called from this machine.
func reachable(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return addr
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port)
}
