package allinone

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/carillon-timer/carillon/libs/config"
	"github.com/carillon-timer/carillon/libs/process"
	"github.com/carillon-timer/carillon/services/wiring"
)

// Dev runs everything in one process: a SQLite file in the data directory, an in-memory bus and
// window. Its API has a bell beside it, so that a new user can hear a timer ring without an
// endpoint of his own.
func Dev(ctx context.Context, args []string, env process.Env, stdout, stderr io.Writer) error {
	s := &wiring.Settings{}
	s.KeylessOnLoopback = true
	return wiring.Run(ctx, wiring.Program{
		Name:     "carillon dev",
		Service:  "dev",
		Settings: s,
		Parts:    []config.Part{&s.Data},
		Open:     wiring.OpenEmbedded,
		Stdout:   stdout,
		Roles: []wiring.Role{
			wiring.Migrator(),
			wiring.Scheduler(),
			wiring.Trigger(),
			wiring.Executor(),
			wiring.API(),
		},
		Prepare: func(k *wiring.Kit) { k.EchoPath, k.Echo = EchoPath, Echo(stdout) },
		Started: func(k *wiring.Kit) error { return welcome(stdout, k) },
	}, args, env, stderr)
}

// welcome prints where the API is, and the line that makes a timer ring a bell.
func welcome(w io.Writer, k *wiring.Kit) error {
	at := "http://" + reachable(k.HTTPAddr)
	var key, who string
	if !k.Keyless {
		value := "$" + config.EnvPrefix + "ADMIN_KEY"
		if f := k.Settings.API.AdminKeyFile; f != "" {
			value = "$(cat '" + strings.ReplaceAll(f, "'", `'\''`) + "')"
		}
		key, who = `-H "Authorization: Bearer `+value+`" `, " Callers need keys; the admin key opens everything, and so would one of scope write of the app demo."
	}
	target, what := at+EchoPath, "this makes a timer ring here in 3 seconds:"
	if k.Settings.Callback.AllowPrivate == config.No {
		target, what = "https://example.com/hook", "this makes a timer call an address in 3 seconds; it has to be public (callback-allow-private=false):"
	}
	_, err := fmt.Fprintf(w, `
Carillon is at %[1]s.%[2]s In another terminal, %[3]s

curl -s %[1]s/api/v2/timers %[4]s-H 'Content-Type: application/json' -d '{"app":"demo","name":"hello-'$(date +%%s)'","status":"active","schedule":{"kind":"delay","delay":"3s"},"target":{"kind":"http","url":"%[5]s","method":"POST","body":"hello"}}'

`, at, who, what, key, target)
	if err != nil {
		return fmt.Errorf("greeting: %w", err)
	}
	return nil
}

// reachable turns an address that something listens on into one that can be called from this
// machine.
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
