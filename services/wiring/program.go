package wiring

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"

	"github.com/rs/zerolog"

	"github.com/carillon-timer/carillon/libs/clock"
	"github.com/carillon-timer/carillon/libs/config"
	"github.com/carillon-timer/carillon/libs/health"
	"github.com/carillon-timer/carillon/libs/logging"
	"github.com/carillon-timer/carillon/libs/metrics"
	"github.com/carillon-timer/carillon/libs/process"
	"github.com/carillon-timer/carillon/libs/zone"
)

var errStarting = errors.New("the process is starting")

// Program is a composition of roles.
type Program struct {
	Name     string // of the binary
	Service  string // name in log lines
	Settings *Settings
	Parts    []config.Part // of Settings, in addition to the common ones and those of the roles
	Open     Open
	Roles    []Role
	Prepare  func(k *Kit)       // runs before the roles are added; may be nil
	Started  func(k *Kit) error // runs after they were added; may be nil
	Stdout   io.Writer          // where -print-config writes
}

// Service returns the program of one role over real servers.
func Service(r Role) process.RunFunc {
	return func(ctx context.Context, args []string, env process.Env, stdout, stderr io.Writer) error {
		s := &Settings{}
		return Run(ctx, Program{
			Name:     "carillon-" + r.Name,
			Service:  r.Name,
			Settings: s,
			Parts:    s.servers(),
			Open:     OpenServers,
			Roles:    []Role{r},
			Stdout:   stdout,
		}, args, env, stderr)
	}
}

// Run runs a program until ctx ends: settings, logger, registry, admin listener, parts, services.
func Run(
	ctx context.Context,
	p Program,
	args []string,
	env process.Env,
	stderr io.Writer,
) (err error) {
	parts := append(p.Settings.common(), p.Parts...)
	for _, r := range p.Roles {
		for _, part := range r.Needs(p.Settings) {
			if !slices.Contains(parts, part) { // two roles may need the same part
				parts = append(parts, part)
			}
		}
	}
	set := config.NewSet(p.Name, parts...)
	if err := set.Load(args, env, p.Stdout); err != nil {
		return err //nolint:wrapcheck // each problem is told as it is
	}
	zones, err := p.Settings.openZones()
	if err != nil {
		return err
	}
	k, err := newKit(p, stderr)
	if err != nil {
		return err
	}
	k.Zones, k.values, k.ignored = zones, set.Values(), set.Ignored
	if err := k.trace(ctx, p, env); err != nil {
		return errors.Join(err, k.Process.Close())
	}
	k.expands = slices.ContainsFunc(p.Roles, func(r Role) bool { return r.Name == migratorRole })
	defer func() { err = errors.Join(err, k.Process.Close()) }()
	if err := k.Process.Admin(
		ctx,
		p.Settings.Admin.Addr,
		k.Registry,
		k.testRoutes()...); err != nil {
		return fmt.Errorf("admin-addr: %w", err)
	}
	if err := k.build(ctx, p); err != nil {
		if ctx.Err() != nil {
			return nil // stopped while it was waiting
		}
		return err
	}
	k.Health.SetError("process", nil)
	k.Log.Info().
		Str(logging.Version, process.Version()).
		Str("tzdata", k.Zones.Version()).
		Msg("started")
	return k.Process.Run(ctx) //nolint:wrapcheck // it names the part
}

func newKit(p Program, stderr io.Writer) (*Kit, error) {
	s := p.Settings
	log, err := logging.New(stderr, s.Log.Level, s.Log.Format, p.Service)
	if err != nil {
		return nil, err //nolint:wrapcheck // it says what it is about
	}
	registry, err := metrics.New(process.Version(), zone.Default().Version())
	if err != nil {
		return nil, err //nolint:wrapcheck // it says what it is about
	}
	h := health.New(0)
	h.SetError("process", errStarting)
	h.Register(registry)
	k := &Kit{Settings: s, Health: h, Log: log, Registry: registry, service: p.Service}
	k.Process = process.New(process.Options{
		Logger:    log,
		Health:    h,
		Drain:     s.Shutdown.Drain,
		Grace:     s.Shutdown.Grace,
		Listening: func(a net.Addr) { k.OwnListeners.Add(a, nil) },
	})
	if s.Testing.Clock {
		k.HostClock = new(clock.Host)
	}
	return k, nil
}

func (k *Kit) build(ctx context.Context, p Program) error {
	if err := k.readCallbackSettings(); err != nil {
		return config.Problem(err)
	}
	if err := k.readCertificate(); err != nil {
		return config.Problem(err)
	}
	if err := p.Open(ctx, k); err != nil {
		return err
	}
	if err := k.addCommonParts(ctx); err != nil {
		return err
	}
	if p.Prepare != nil {
		p.Prepare(k)
	}
	for _, r := range p.Roles {
		if err := r.Add(ctx, k); err != nil {
			return err
		}
	}
	if p.Started != nil {
		return p.Started(k)
	}
	return nil
}

// logger returns the logger of one service. Its lines name the service, because a process may have
// several.
func (k *Kit) logger(service string) zerolog.Logger {
	return k.Log.With().Str(logging.Part, service).Logger()
}

// Prepare opens and prepares real servers, and closes them again. It returns an error if ctx ends
// before they are prepared.
func Prepare(
	ctx context.Context,
	name string,
	args []string,
	env process.Env,
	stdout, stderr io.Writer,
) (err error) {
	s := &Settings{}
	parts := append(s.servers(), &s.Log)
	if err := config.NewSet(name, parts...).Load(args, env, stdout); err != nil {
		return err //nolint:wrapcheck // each problem is told as it is
	}
	k, err := newKit(Program{Service: "setup", Settings: s}, stderr)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, k.Process.Close()) }()
	return k.openServers(ctx, true)
}
