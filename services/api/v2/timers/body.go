package timers

import (
	"context"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/api/definition"
	"github.com/carillon-timer/carillon/services/api/input"
)

// newTimer converts a body for the store, or returns all its errors. REDACTED secrets are taken
// from stored, which may be nil.
func (s *Resource) newTimer(
	ctx context.Context,
	b *newTimerBody,
	key string,
	stored *timer.Definition,
) (store.NewTimer, error) {
	var r input.BodyReader
	d := timer.Definition{
		Schedule: s.Definitions.ReadSchedule(&b.Schedule, &r),
		Retry:    definition.ReadRetry(b.Retry, &r),
		Misfire: definition.ReadMisfire(
			b.Misfire,
			&r,
		),
		Concurrency: definition.ReadConcurrency(b.Concurrency),
		Priority:    timer.Priority(b.Priority),
		Labels:      b.Labels,
		Metrics:     b.Metrics,
	}
	d.Target, d.Fanout = s.Definitions.ReadTargets(b.App, b.Target, b.Targets, b.Mode, stored, &r)
	n := store.NewTimer{
		App:            b.App,
		Name:           b.Name,
		Activate:       b.Status == string(timer.StatusActive),
		IdempotencyKey: key,
	}
	r.Errs = append(r.Errs, input.CheckNames(b.App, b.Name)...)
	if err := s.Definitions.CheckDefinition(ctx, b.App, b.Name, &d, &r); err != nil {
		return n, err
	}
	n.Definition = d
	if key != "" {
		n.RequestHash = hashOf(&n)
	}
	return n, nil
}

// changed applies the fields of a body to a definition.
func (s *Resource) changed(
	app string,
	b *changeBody,
	d timer.Definition,
	r *input.BodyReader,
) timer.Definition {
	stored := d
	if b.Schedule != nil {
		d.Schedule = s.Definitions.ReadSchedule(b.Schedule, r)
		// A policy that is the default of the former kind is not stored. What a read showed stays.
		d.Misfire.Policy = stored.Misfire.For(stored.Schedule.Kind).Policy
	}
	if b.Target != nil || b.Targets != nil {
		d.Target, d.Fanout = s.Definitions.ReadTargets(
			app,
			b.Target,
			input.OrZero(b.Targets),
			b.Mode,
			&stored,
			r,
		)
		if b.Mode == "" && d.Several() {
			d.Mode = stored.Mode
		}
	} else if b.Mode != "" {
		d.Mode = timer.Mode(b.Mode)
	}
	if b.Priority != "" {
		d.Priority = timer.Priority(b.Priority)
	}
	if b.Labels != nil {
		d.Labels = *b.Labels
	}
	if b.Metrics != nil {
		d.Metrics = *b.Metrics
	}
	if b.Retry != nil {
		d.Retry = definition.ReadRetry(b.Retry, r)
	}
	if b.Misfire != nil {
		d.Misfire = definition.ReadMisfire(b.Misfire, r)
	}
	if b.Concurrency != nil {
		d.Concurrency = definition.ReadConcurrency(b.Concurrency)
	}
	return d
}

// hashOf returns the hash that distinguishes requests under one idempotency key. It hashes the
// meaning, so the order of fields does not matter. Secrets enter in encrypted form. A hash of plain
// secrets would let anyone who reads the database guess them.
func hashOf(n *store.NewTimer) []byte {
	return input.Hash(struct {
		App, Name  string
		Definition timer.Definition
		Activate   bool
	}{n.App, n.Name, n.Definition, n.Activate})
}
