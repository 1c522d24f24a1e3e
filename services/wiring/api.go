package wiring

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"

	"github.com/rs/zerolog"

	"github.com/carillon-timer/carillon/libs/certfile"
	"github.com/carillon-timer/carillon/libs/config"
	"github.com/carillon-timer/carillon/libs/egress"
	"github.com/carillon-timer/carillon/libs/logging"
	"github.com/carillon-timer/carillon/libs/process"
	"github.com/carillon-timer/carillon/services/api"
	"github.com/carillon-timer/carillon/services/api/auth"
	"github.com/carillon-timer/carillon/services/api/v2/operations"
)

// API is the role that serves the HTTP API.
func API() Role {
	return Role{"api", func(s *Settings) []config.Part {
		return []config.Part{
			&s.HTTP, &s.API, &s.OIDC, &s.Gateway, &s.Callback, &s.Encryption, &s.Retention,
			&config.Listeners{HTTP: &s.HTTP, Admin: &s.Admin},
			zoneCheck{&s.API, &s.Zones},
			rolesCheck{&s.OIDC},
		}
	}, addAPI}
}

func addAPI(ctx context.Context, k *Kit) error {
	rules, err := k.auth()
	if err != nil {
		return config.Problem(err)
	}
	people, err := k.signIn()
	if err != nil {
		return config.Problem(err)
	}
	if people != nil {
		rules.Tokens = people
	}
	log := k.logger("api")
	var namespace string
	if k.Settings.Pulsar.URL != "" {
		namespace = k.Settings.Pulsar.Tenant + "/" + k.Settings.Pulsar.Namespace
	}
	settings := make([]operations.Setting, len(k.values))
	for i, v := range k.values {
		settings[i] = operations.Setting{Name: v.Name, Value: v.Text, Source: v.Source}
	}
	o := api.Options{
		Store:          k.Store,
		Bus:            k.Bus,
		Backlog:        k.Bus,
		Settings:       settings,
		Health:         k.Health,
		Dispatch:       k.Dispatch,
		Plan:           k.Planner.Plan,
		Successor:      k.Planner,
		Counts:         k.Counts,
		Auth:           rules,
		Secrets:        k.Keyring,
		Egress:         k.Egress,
		Topics:         k.Topics,
		AllowInsecure:  k.Settings.Callback.AllowInsecure,
		ReservedHeader: k.Settings.Gateway.TrustHeader,
		OwnNamespace:   namespace,
		Zone:           k.Settings.API.Zone,
		Now:            k.Clock.Now,
		Retention:      k.Settings.Retention.Keep,
		SignIn:         people,
		Page:           k.Settings.API.Page,
		Tracer:         k.Tracer,
		Logger:         log,
		Registerer:     k.Registry,
		MaxTests:       k.Settings.API.TestCalls,
	}
	if o.MaxTests > 0 {
		if o.Caller, err = k.callers(); err != nil {
			return err
		}
	}
	s, err := api.New(o)
	if err != nil {
		return err
	}
	ln, err := k.listen(ctx, log)
	if err != nil {
		return err
	}
	k.HTTPAddr, k.Keyless = ln.Addr().String(), rules.Off
	mux := http.NewServeMux()
	mux.Handle("/", s.Handler())
	if k.Home != "" && k.Settings.API.Page {
		mux.Handle("GET /{$}", http.RedirectHandler(k.Home, http.StatusFound))
	}
	k.OwnListeners.Add(ln.Addr(), k.echo(mux, s))
	handler := http.Handler(mux)
	if rules.Off {
		handler = protectKeyless(mux, k.HTTPAddr)
	}
	k.flushCounts()
	k.run("api", s)
	k.Process.Intake("http", process.Serve(ln, handler, k.Settings.Shutdown.Grace, log))
	return nil
}

// readCertificate reads the API's certificate, if it has one. It does so before the servers are
// opened, which may be unavailable for long.
func (k *Kit) readCertificate() (err error) {
	h := &k.Settings.HTTP // empty in programs without the API
	if h.TLSCert == "" {
		return nil
	}
	if k.certificate, err = certfile.Load(h.TLSCert, h.TLSKey, k.logger("api")); err != nil {
		return fmt.Errorf("http-tls-cert, http-tls-key: %w", err)
	}
	return nil
}

// listen opens the listener of the API.
func (k *Kit) listen(ctx context.Context, log zerolog.Logger) (net.Listener, error) {
	ln, err := process.Listen(ctx, k.Settings.HTTP.Addr, logging.HTTPListening, log)
	if err != nil {
		return nil, fmt.Errorf("http-addr: %w", err)
	}
	if k.certificate != nil {
		ln = tls.NewListener(ln, k.certificate.Config())
	}
	return ln, nil
}

// echo serves the echo endpoint beside the API, for people, and on an in-memory listener, for
// timers. It returns that endpoint, or nil. Nothing else is served there, so
// timers cannot reach the API through any path, Host or redirect. Timers need no key there, because
// their creator had one.
func (k *Kit) echo(beside *http.ServeMux, s *api.Service) *egress.Echo {
	if k.Echo == nil {
		return nil
	}
	beside.Handle(k.EchoPath, s.WithKey(k.Echo))
	if k.Settings.Callback.AllowPrivate == config.No {
		return nil
	}
	alone := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != k.EchoPath {
			http.Error(
				w,
				"timers may not call Carillon's API; at this address they reach only "+k.EchoPath,
				http.StatusForbidden,
			)
			return
		}
		k.Echo.ServeHTTP(w, r)
	})
	ln := newMemoryListener()
	k.Process.Work(
		"echo endpoint",
		process.Serve(ln, alone, k.Settings.Shutdown.Grace, k.logger("api")),
	)
	return &egress.Echo{Path: k.EchoPath, Dial: ln.Dial}
}

// auth returns who may call the API. It logs a warning where every caller may do everything.
func (k *Kit) auth() (a auth.Rules, err error) {
	s := &k.Settings.API
	log := k.logger("api")
	switch {
	case s.Auth == config.AuthOff:
		log.Warn().Msg("NO KEYS: every caller may do everything (auth=off)")
		a.Off = true
	case s.Auth == config.AuthAuto && k.Settings.keyless():
		log.Info().Msg("callers on this machine need no keys (auth=auto)")
		a.Off = true
	}
	if a.Off {
		return a, nil
	}
	if a.Admin, err = s.Admin(); err != nil {
		return a, err
	}
	if s.KeysFile != "" {
		if a.Keys, err = auth.LoadKeys(s.KeysFile); err != nil {
			return a, fmt.Errorf("api-keys-file: %w", err)
		}
	}
	a.TrustHeader = k.Settings.Gateway.TrustHeader
	if a.TrustFrom, err = k.Settings.Gateway.Trusted(); err != nil {
		return a, err
	}
	if a.Admin == nil && a.Keys == nil && a.TrustHeader == "" {
		log.Warn().
			Msg("callers need keys, and there is no admin key to create the first one: set admin-key (carillon admin-key prints one)")
	}
	return a, nil
}
