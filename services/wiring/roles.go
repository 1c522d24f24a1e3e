package wiring

import (
	"context"
	"time"

	"github.com/carillon-timer/carillon/libs/config"
	"github.com/carillon-timer/carillon/libs/process"
	"github.com/carillon-timer/carillon/services/executor"
	"github.com/carillon-timer/carillon/services/migrator"
	"github.com/carillon-timer/carillon/services/scheduler"
	"github.com/carillon-timer/carillon/services/trigger"
)

// Role is one of the five services: the settings it needs besides the common ones, and how it is
// added to a kit.
type Role struct {
	Name  string
	Needs func(s *Settings) []config.Part
	Add   func(ctx context.Context, k *Kit) error
}

const migratorRole = "migrator"

// Migrator is the role that expands schedules into fires.
func Migrator() Role {
	return Role{
		migratorRole,
		func(s *Settings) []config.Part { return []config.Part{&s.Retention} },
		addMigrator,
	}
}

func addMigrator(_ context.Context, k *Kit) error {
	s, err := migrator.New(migrator.Options{
		Store:            k.Store,
		Bus:              k.Bus,
		Dispatch:         k.Dispatch,
		Planner:          k.Planner,
		Counts:           k.Counts,
		Now:              k.Clock.Now,
		ExpandAhead:      k.Settings.Timing.ExpandAhead,
		Retention:        k.Settings.Retention.Keep,
		AuditRetention:   k.Settings.Retention.Audit,
		OneShotRetention: k.Settings.Retention.OneShots,
		Tracer:           k.Tracer,
		Logger:           k.logger("migrator"),
		Registerer:       k.Registry,
	})
	if err != nil {
		return err //nolint:wrapcheck // it names the service
	}
	k.flushing = true
	k.run("migrator", s)
	return nil
}

// Scheduler is the role that dispatches slices and expires sessions.
func Scheduler() Role { return Role{"scheduler", noSettings, addScheduler} }

func addScheduler(_ context.Context, k *Kit) error {
	s, err := scheduler.New(scheduler.Options{
		Store:      k.Store,
		Bus:        k.Bus,
		IDs:        k.IDs,
		Name:       k.Name,
		Now:        k.Clock.Now,
		Logger:     k.logger("scheduler"),
		Registerer: k.Registry,

		NoAuditTopic: k.BusInMemory,
	})
	if err != nil {
		return err //nolint:wrapcheck // it names the service
	}
	k.run("scheduler", s)
	return nil
}

// Trigger is the role that turns slices into tasks.
func Trigger() Role { return Role{"trigger", noSettings, addTrigger} }

func addTrigger(_ context.Context, k *Kit) error {
	s, err := trigger.New(trigger.Options{
		Store:        k.Store,
		Bus:          k.Bus,
		Window:       k.Window,
		Dispatch:     k.Dispatch,
		Now:          k.Clock.Now,
		Holder:       k.IDs.Next(),
		DispatchLead: k.Settings.Timing.DispatchLead,
		Tracer:       k.Tracer,
		Logger:       k.logger("trigger"),
		Registerer:   k.Registry,
	})
	if err != nil {
		return err //nolint:wrapcheck // it names the service
	}
	k.run("trigger", s)
	return nil
}

// closeTime is what an executor needs after it has recorded what ended: to publish the last outcome
// events, to note that, and to close its session, a second each.
const closeTime = 3 * time.Second

// Executor is the role that calls targets.
func Executor() Role {
	return Role{
		"executor",
		func(s *Settings) []config.Part {
			return []config.Part{&s.Executor, &s.Gateway, &s.Callback, &s.Encryption}
		},
		addExecutor,
	}
}

func addExecutor(_ context.Context, k *Kit) error {
	o := executor.Options{
		Store: k.Store, Bus: k.Bus, Dispatch: k.Dispatch, Planner: k.Planner,
		Clock: k.Clock, Counts: k.Counts, IDs: k.IDs, Name: k.Name, PeerNotice: k.peers.Heard,
		MaxCalls: k.Settings.Executor.Calls, MaxInflight: k.Settings.Executor.MaxInflight(),
		DrainTimeout: k.Settings.Shutdown.Grace, RecordTimeout: process.RecordTime - closeTime,
		//nolint:mnd // what came by a task was claimed longer ago
		PollAhead: k.Settings.Timing.DispatchLead / 2,
		Tracer:    k.Tracer,
		Logger:    k.logger("executor"), Registerer: k.Registry,
	}
	if err := k.addCallers(&o); err != nil {
		return err
	}
	s, err := executor.New(o)
	if err != nil {
		return err //nolint:wrapcheck // it names the service
	}
	k.flushCounts()
	k.run("executor", s)
	return nil
}

func noSettings(*Settings) []config.Part { return nil }
