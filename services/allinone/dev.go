package allinone

import (
	"context"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"

	"github.com/carillon-timer/carillon/libs/config"
	"github.com/carillon-timer/carillon/libs/logging"
	"github.com/carillon-timer/carillon/libs/process"
	"github.com/carillon-timer/carillon/services/api/ui"
	"github.com/carillon-timer/carillon/services/wiring"
)

// Dev runs all services in one process, with a SQLite file in the data directory and an in-memory
// bus and window. Its API has an echo endpoint, so that a new user sees a callback without an
// endpoint of their own.
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
		Prepare: func(k *wiring.Kit) {
			k.EchoPath, k.Echo, k.Home = EchoPath, Echo(stdout), ui.Prefix+"/"
		},
		Started: func(k *wiring.Kit) error {
			if logging.IsTerminal(stdout) {
				return showPanel(stdout, env, k)
			}
			return welcome(stdout, k)
		},
	}, args, env, stderr)
}

// welcome prints the API's address and a command that creates a timer.
func welcome(w io.Writer, k *wiring.Kit) error {
	at := apiAddress(k)
	var key, who string
	if !k.Keyless {
		value := "$" + config.EnvPrefix + "ADMIN_KEY"
		if f := k.Settings.API.AdminKeyFile; f != "" {
			value = "$(cat '" + strings.ReplaceAll(f, "'", `'\''`) + "')"
		}
		key, who = `-H "Authorization: Bearer `+value+`" `, " Callers need a key: the admin key, or one of scope write of the app demo."
	}
	page := ""
	if k.Settings.API.Page {
		page = " Open the address in a browser to see what runs."
	}
	target, what := at+EchoPath, "this creates a timer that calls an endpoint here in 3 seconds:"
	if k.Settings.Callback.AllowPrivate == config.No {
		target, what = "https://example.com/hook", "this creates a timer that calls an address in 3 seconds; it must be public (callback-allow-private=false):"
	}
	_, err := fmt.Fprintf(w, `
Carillon is at %[1]s. Its data is in %[7]s.%[6]s%[2]s In another terminal, %[3]s

curl -s %[1]s/api/v2/timers %[4]s-H 'Content-Type: application/json' -d '{"app":"demo","name":"hello-'$(date +%%s)'","status":"active","schedule":{"kind":"delay","delay":"3s"},"target":{"kind":"http","url":"%[5]s","method":"POST","body":"hello"}}'

`, at, who, what, key, target, page, dataDir(k))
	if err != nil {
		return fmt.Errorf("printing the welcome: %w", err)
	}
	return nil
}

// dataDir returns the data directory as a path from the root, which tells where ./data is.
func dataDir(k *wiring.Kit) string {
	dir := k.Settings.Data.Dir
	if abs, err := filepath.Abs(dir); err == nil {
		return abs
	}
	return dir
}

// apiAddress returns the address of the API for callers on this machine.
func apiAddress(k *wiring.Kit) string {
	scheme := "http://"
	if k.Settings.HTTP.TLSCert != "" {
		scheme = "https://"
	}
	return scheme + reachable(k.HTTPAddr)
}

// reachable converts a listener's address to one that can be called from this machine.
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
