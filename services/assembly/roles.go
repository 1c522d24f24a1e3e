package assembly

import (
	"context"
	"fmt"
	"net/http"

	"github.com/carillon-timer/carillon/libs/callback"
	"github.com/carillon-timer/carillon/libs/config"
	"github.com/carillon-timer/carillon/libs/logging"
	"github.com/carillon-timer/carillon/libs/process"
	"github.com/carillon-timer/carillon/libs/selfcheck"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/api"
	"github.com/carillon-timer/carillon/services/executor"
	"github.com/carillon-timer/carillon/services/migrator"
	"github.com/carillon-timer/carillon/services/scheduler"
	"github.com/carillon-timer/carillon/services/trigger"
)

// Role is one of the five services: which settings it needs beyond the common ones, and how it is made from a kit.
type Role struct {
	Name  string
	Needs func(s *Settings) []config.Part
	Add   func(ctx context.Context, k *Kit) error
}

// Migrator expands schedules.
func Migrator() Role {
	return Role{"migrator", func(s *Settings) []config.Part { return []config.Part{&s.Retention} }, addMigrator}
}

func addMigrator(_ context.Context, k *Kit) error {
	s, err := migrator.New(migrator.Options{
		Store: k.Store, Dispatch: k.Dispatch, Planner: k.Planner, Counts: k.Counts, Now: k.Clock.Now,
		Step1: k.Settings.Timing.Step1, Retention: k.Settings.Retention.Keep, Logger: k.logger("migrator"), Registerer: k.Registry,
	})
	if err != nil {
		return err //nolint:wrapcheck // it names the service
	}
	k.flushing = true
	k.run("migrator", s)
	return nil
}

// Scheduler hands out slices and sweeps.
func Scheduler() Role { return Role{"scheduler", nothing, addScheduler} }

func addScheduler(_ context.Context, k *Kit) error {
	s, err := scheduler.New(scheduler.Options{
		Store: k.Store, Bus: k.Bus, Dispatch: k.Dispatch, IDs: k.IDs, Name: k.Name, Now: k.Clock.Now,
		Logger: k.logger("scheduler"), Registerer: k.Registry,
	})
	if err != nil {
		return err //nolint:wrapcheck // it names the service
	}
	k.run("scheduler", s)
	return nil
}

// Trigger turns slices into tasks.
func Trigger() Role { return Role{"trigger", nothing, addTrigger} }

func addTrigger(_ context.Context, k *Kit) error {
	s, err := trigger.New(trigger.Options{
		Store: k.Store, Bus: k.Bus, Window: k.Window, Dispatch: k.Dispatch, Now: k.Clock.Now, Holder: k.IDs.Next(),
		Lead: k.Settings.Timing.Lead, Logger: k.logger("trigger"), Registerer: k.Registry,
	})
	if err != nil {
		return err //nolint:wrapcheck // it names the service
	}
	k.run("trigger", s)
	return nil
}

// Executor calls.
func Executor() Role {
	return Role{"executor", func(s *Settings) []config.Part { return []config.Part{&s.Callback} }, addExecutor}
}

func addExecutor(_ context.Context, k *Kit) error {
	caller, err := callback.NewHTTP(callback.HTTPOptions{AllowPrivate: k.Settings.Callback.AllowPrivate})
	if err != nil {
		return err //nolint:wrapcheck // it says what it is about
	}
	k.Process.OnClose("callbacks", func(context.Context) error { caller.Close(); return nil })
	s, err := executor.New(executor.Options{
		Store: k.Store, Bus: k.Bus, Dispatch: k.Dispatch, Planner: k.Planner,
		Callers: map[timer.TargetKind]callback.Caller{timer.KindHTTP: caller, timer.KindCanary: selfcheck.NewCaller(k.Registry)},
		Clock:   k.Clock, Counts: k.Counts, IDs: k.IDs, Name: k.Name,
		DrainTimeout: k.Settings.Shutdown.Grace * 2 / 3, //nolint:mnd // the rest is for recording and giving back
		Logger:       k.logger("executor"), Registerer: k.Registry,
	})
	if err != nil {
		return err //nolint:wrapcheck // it names the service
	}
	k.flushCounts()
	k.run("executor", s)
	return nil
}

// API takes definitions.
func API() Role {
	return Role{"api", func(s *Settings) []config.Part { return []config.Part{&s.HTTP, &s.API} }, addAPI}
}

func addAPI(ctx context.Context, k *Kit) error {
	var keys api.Keys
	if file := k.Settings.API.KeysFile; file != "" {
		var err error
		if keys, err = api.LoadKeys(file); err != nil {
			return err //nolint:wrapcheck // it names the file
		}
	}
	log := k.logger("api")
	s, err := api.New(api.Options{
		Store: k.Store, Bus: k.Bus, Dispatch: k.Dispatch, Plan: k.Planner.Plan, Counts: k.Counts, Keys: keys, Zone: k.Settings.API.Zone, Now: k.Clock.Now,
		Logger: log, Registerer: k.Registry,
	})
	if err != nil {
		return err //nolint:wrapcheck // it names the service
	}
	ln, err := process.Listen(ctx, k.Settings.HTTP.Addr, logging.HTTPListening, log)
	if err != nil {
		return fmt.Errorf("http-addr: %w", err)
	}
	k.HTTPAddr = ln.Addr().String()
	mux := http.NewServeMux()
	mux.Handle("/", s.Handler())
	for pattern, h := range k.HTTPHandlers {
		mux.Handle(pattern, h)
	}
	k.flushCounts()
	k.run("api", s)
	k.Process.Intake("http", process.Serve(ln, mux, k.Settings.Shutdown.Grace))
	return nil
}

func nothing(*Settings) []config.Part { return nil }
