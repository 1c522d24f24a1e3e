package api

import (
	"context"
	"fmt"
	"net/http"

	"github.com/carillon-timer/carillon/libs/batch"
	"github.com/carillon-timer/carillon/libs/callback"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/api/auth"
	"github.com/carillon-timer/carillon/services/api/definition"
	"github.com/carillon-timer/carillon/services/api/problem"
	"github.com/carillon-timer/carillon/services/api/requests"
	"github.com/carillon-timer/carillon/services/api/signin"
	"github.com/carillon-timer/carillon/services/api/upcoming"
	v1 "github.com/carillon-timer/carillon/services/api/v1"
	v2 "github.com/carillon-timer/carillon/services/api/v2"
	"github.com/carillon-timer/carillon/services/api/v2/apps"
	"github.com/carillon-timer/carillon/services/api/v2/audit"
	"github.com/carillon-timer/carillon/services/api/v2/backfills"
	"github.com/carillon-timer/carillon/services/api/v2/calendars"
	"github.com/carillon-timer/carillon/services/api/v2/explain"
	"github.com/carillon-timer/carillon/services/api/v2/fires"
	"github.com/carillon-timer/carillon/services/api/v2/history"
	"github.com/carillon-timer/carillon/services/api/v2/jobs"
	"github.com/carillon-timer/carillon/services/api/v2/operations"
	"github.com/carillon-timer/carillon/services/api/v2/people"
	"github.com/carillon-timer/carillon/services/api/v2/schedules"
	"github.com/carillon-timer/carillon/services/api/v2/timers"
	"github.com/carillon-timer/carillon/services/api/writes"
)

// Service is the HTTP API.
type Service struct {
	opts     Options
	metrics  *metrics
	handler  http.Handler
	v1       *v1.API
	v2       *v2.API
	auth     *auth.Checker
	problems *problem.Reporter
	writer   *writes.Writer
	inFlight requests.Slots        // of authenticated requests
	bodies   *requests.BodyLimiter // limits body reads without a key
	stall    *requests.StallDetector
	ends     *signin.Ends // since when sessions of people count
}

// New returns an API that does not serve yet.
func New(opts Options) (*Service, error) {
	opts.defaults()
	if err := opts.validate(); err != nil {
		return nil, err
	}
	problems := problem.NewReporter(opts.Logger)
	s := &Service{
		opts:     opts,
		metrics:  newMetrics(opts.Registerer),
		problems: problems,
		auth: auth.New(auth.Options{
			Rules:       opts.Auth,
			Lookup:      opts.Store.APIKey,
			MaxInFlight: opts.MaxInFlight,
			Problems:    problems,
			Logger:      opts.Logger,
			Registerer:  opts.Registerer,
		}),
		writer: writes.New(writes.Options{
			Store:    opts.Store,
			Plan:     opts.Plan,
			Dispatch: opts.Dispatch,
			Bus:      opts.Bus,
			Batch: batch.Options{
				Max:         opts.GroupMax,
				Wait:        opts.GroupWait,
				Concurrency: opts.GroupsInFlight,
				Timeout:     opts.Timeout,
			},
			Logger:     opts.Logger,
			Registerer: opts.Registerer,
		}),
		inFlight: requests.NewSlots(opts.MaxInFlight),
		bodies:   requests.NewBodyLimiter(opts.MaxBodies, opts.BodyTimeout, opts.Timeout),
		stall:    requests.NewStallDetector(),
	}
	if opts.SignIn.SignsIn() {
		issuer := opts.SignIn.Issuer()
		s.ends = signin.NewEnds(func(ctx context.Context, subject string) (int64, error) {
			return opts.Store.SignInsEnded(ctx, issuer, subject)
		})
	}
	var tokens *callback.CompletionTokens
	if opts.Secrets != nil {
		var err error
		if tokens, err = callback.NewCompletionTokens(
			opts.Secrets.Derive("completion")...); err != nil {
			return nil, fmt.Errorf("api: %w", err)
		}
	}
	s.addOperations(tokens)
	var err error
	if s.handler, err = s.routes(); err != nil {
		return nil, fmt.Errorf("api: %w", err)
	}
	return s, nil
}

// addOperations creates the operations of both versions.
func (s *Service) addOperations(tokens *callback.CompletionTokens) {
	o := &s.opts
	ids := timer.NewIDs(o.Now) // of series and backfills
	definitions := &definition.Reader{
		Store:          o.Store,
		Problems:       s.problems,
		Secrets:        o.Secrets,
		Tokens:         tokens,
		Zone:           o.Zone,
		Egress:         o.Egress,
		Topics:         o.Topics,
		AllowInsecure:  o.AllowInsecure,
		ReservedHeader: o.ReservedHeader,
		Kinds:          o.Kinds,
		OwnNamespace:   o.OwnNamespace,
	}
	due := &upcoming.Finder{Store: o.Store, Now: o.Now}
	s.v1 = &v1.API{
		Store:       o.Store,
		Auth:        s.auth,
		Problems:    s.problems,
		Writer:      s.writer,
		Definitions: definitions,
	}
	s.v2 = &v2.API{Auth: s.auth, Problems: s.problems, BodyTimeout: o.BodyTimeout}
	s.v2.Resources = []v2.Resource{
		&timers.Resource{
			Store: o.Store, Auth: s.auth, Writer: s.writer, Definitions: definitions,
			Upcoming: due, Plan: o.Plan, Secrets: o.Secrets, Now: o.Now, IDs: ids,
			Caller: o.Caller, Tests: timers.NewTestSlots(o.MaxTests), Tokens: tokens,
			Exports: requests.NewAppSlots(timers.MaxExports),
		},
		fires.New(fires.Options{
			Store:          o.Store,
			Auth:           s.auth,
			Problems:       s.problems,
			Writer:         s.writer,
			Upcoming:       due,
			Successor:      o.Successor,
			Counts:         o.Counts,
			Tokens:         tokens,
			MaxCompletions: o.MaxCompletions,
			IDs:            ids,
			Now:            o.Now,
			Tracer:         o.Tracer,
			Registerer:     o.Registerer,
		}),
		history.New(history.Options{
			Store:      o.Store,
			Auth:       s.auth,
			Problems:   s.problems,
			Upcoming:   due,
			Now:        o.Now,
			MaxStreams: o.MaxStreams,
			Logger:     o.Logger,
			Registerer: o.Registerer,
		}),
		&backfills.Resource{
			Store:    o.Store,
			Auth:     s.auth,
			Problems: s.problems,
			IDs:      ids,
			Now:      o.Now,
		},
		&apps.Resource{
			Store:    o.Store,
			Auth:     s.auth,
			Problems: s.problems,
			Secrets:  o.Secrets,
			Egress:   o.Egress,
			IDs:      ids,
			Now:      o.Now,
		},
		&audit.Resource{Store: o.Store, Auth: s.auth, Problems: s.problems},
		&explain.Resource{
			Store:     o.Store,
			Auth:      s.auth,
			Problems:  s.problems,
			Now:       o.Now,
			Retention: o.Retention,
		},
		&jobs.Resource{
			Store: o.Store, Auth: s.auth, Problems: s.problems, IDs: ids, Now: o.Now,
		},
		&operations.Resource{
			Store:    o.Store,
			Bus:      o.Backlog,
			Auth:     s.auth,
			Settings: o.Settings,
			Health:   o.Health,
			Now:      o.Now,
		},
		&people.Resource{Store: o.Store, Auth: s.auth, Provider: o.SignIn, Ends: s.ends},
		&calendars.Resource{Store: o.Store, Auth: s.auth, Problems: s.problems, Now: o.Now},
		&schedules.Resource{
			Store:       o.Store,
			Auth:        s.auth,
			Problems:    s.problems,
			Definitions: definitions,
			Now:         o.Now,
		},
	}
}

// Handler returns the HTTP handler. Writes that arrive before Run wait for it, within their
// timeout.
func (s *Service) Handler() http.Handler { return s.handler }

// Run executes writes until ctx ends. Then it finishes the writes in flight and publishes their
// notifications. Close the listener first.
func (s *Service) Run(ctx context.Context) error {
	s.writer.Run(func() { s.stall.Run(ctx) })
	return nil
}

// Ready returns nil while writes are executed.
func (s *Service) Ready() error { return s.writer.Ready() }
