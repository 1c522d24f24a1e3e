package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"

	"github.com/danielgtaylor/huma/v2"
	"github.com/rs/zerolog"

	"github.com/carillon-timer/carillon/libs/batch"
	"github.com/carillon-timer/carillon/libs/callback"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// Service is the HTTP API.
type Service struct {
	opts             Options
	ids              *timer.IDs // creates ids of series and backfills
	metrics          *metrics
	handler          http.Handler
	v2               huma.API
	inFlight         slots              // of authenticated requests
	authenticating   slots              // of requests whose key is being looked up
	bodies           *bodyLimiter       // limits body reads without a key
	completions      *completionLimiter // limits completions with a valid token
	notifications    chan changeNotification
	keys             *keyCache
	tokens           *callback.CompletionTokens // nil: there is no key to create them with
	denials          zerolog.Logger
	unavailable      zerolog.Logger // rate-limited, for unavailable servers
	redriveRequested chan struct{}  // signals that dead letters are to be acknowledged
	stall            *stallDetector

	running chan struct{}          // closed once groups is set
	groups  atomic.Pointer[groups] // nil before Run and after it
}

// groups batch concurrent writes.
type groups struct {
	create *batch.Group[store.NewTimer, store.CreateResult]
	status *batch.Group[store.StatusChange, store.StatusResult]
	edit   *batch.Group[store.Edit, store.EditResult] // edits that keep the due instants
}

// New returns an API that does not serve yet.
func New(opts Options) (*Service, error) {
	opts.defaults()
	if err := opts.validate(); err != nil {
		return nil, err
	}
	s := &Service{
		opts:           opts,
		ids:            timer.NewIDs(opts.Now),
		metrics:        newMetrics(opts.Registerer),
		inFlight:       newSlots(opts.MaxInFlight),
		authenticating: newSlots(opts.MaxInFlight),
		bodies: newBodyLimiter(
			max(opts.MaxBodies/bodyShareOfAddress, 1),
			opts.MaxBodies,
			opts.BodyTimeout,
		),
		completions: newCompletionLimiter(opts.MaxCompletions),
		notifications: make(
			chan changeNotification,
			maxNotifications,
		),
		running:          make(chan struct{}),
		redriveRequested: make(chan struct{}, 1),
		keys: newKeyCache(
			opts.Store.APIKey,
		),
		denials:     rateLimited(opts.Logger),
		unavailable: rateLimited(opts.Logger),
		stall:       newStallDetector(),
	}
	if opts.Secrets != nil {
		var err error
		if s.tokens, err = callback.NewCompletionTokens(
			opts.Secrets.Derive("completion")...); err != nil {
			return nil, fmt.Errorf("api: %w", err)
		}
	}
	s.handler, s.v2 = s.routes()
	return s, nil
}

// Handler returns the HTTP handler. Writes that arrive before Run wait for it, within their
// timeout.
func (s *Service) Handler() http.Handler { return s.handler }

// Run executes writes until ctx ends. Then it finishes the writes in flight and publishes their
// notifications. Close the listener first.
func (s *Service) Run(ctx context.Context) error {
	o := batch.Options{
		Max:         s.opts.GroupMax,
		Wait:        s.opts.GroupWait,
		Concurrency: s.opts.GroupsInFlight,
		Timeout:     s.opts.Timeout,
	}
	g := &groups{
		create: batch.New(o, s.create),
		status: batch.New(o, s.setStatus),
		edit:   batch.New(o, s.editGroup),
	}
	s.groups.Store(g)
	close(s.running)

	notified := make(chan struct{})
	stop := make(chan struct{})
	go func() {
		defer close(notified)
		s.publishNotifications(stop)
	}()
	acked := make(chan struct{})
	go func() {
		defer close(acked)
		s.ackAfterRedrives(ctx)
	}()
	s.stall.run(ctx)
	<-acked
	s.groups.Store(nil)
	g.create.Close()
	g.status.Close()
	g.edit.Close()
	close(stop)
	<-notified
	return nil
}

// Ready returns nil while writes are executed.
func (s *Service) Ready() error {
	if s.groups.Load() == nil {
		return errors.New("not running")
	}
	return nil
}
