package api

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// bodyReader converts the texts of a body and collects their errors.
type bodyReader struct {
	errs []*timer.Error
}

// duration parses a duration such as "90s" or "1d12h", where a day has 24 hours. def is the value
// of an empty text.
func (r *bodyReader) duration(field, text string, def timer.Duration) timer.Duration {
	if text == "" {
		return def
	}
	d, err := timer.ParseDuration(text)
	if err != nil {
		r.errs = append(r.errs, timer.Invalid(field, err.Error()))
		return def
	}
	return d
}

// instant parses an instant; nil for an empty text. It converts to UTC, so that the same instant in
// another zone is the same definition.
func (r *bodyReader) instant(field, text string) *time.Time {
	if text == "" {
		return nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		r.errs = append(
			r.errs,
			timer.Invalid(
				field,
				fmt.Sprintf(
					"expected an instant such as \"2030-01-31T09:00:00Z\", found %q",
					clip(text),
				),
			),
		)
		return nil
	}
	at = at.UTC()
	return &at
}

// invalid adds an error about a field.
func (r *bodyReader) invalid(field, msg string) { r.add(timer.Invalid(field, msg)) }

// add adds errors, at most one per field.
func (r *bodyReader) add(errs ...*timer.Error) {
	for _, e := range errs {
		if e.Field == "" ||
			!slices.ContainsFunc(
				r.errs,
				func(had *timer.Error) bool { return had.Field == e.Field },
			) {
			r.errs = append(r.errs, e)
		}
	}
}

// hasErrors returns whether a part of the body, such as "schedule", has errors.
func (r *bodyReader) hasErrors(part string) bool {
	for _, e := range r.errs {
		if len(e.Field) > len(part) && e.Field[:len(part)+1] == part+"." {
			return true
		}
	}
	return false
}

// newTimer converts a body for the store, or returns all its errors. REDACTED secrets are taken
// from stored, which may be nil.
func (s *Service) newTimer(
	ctx context.Context,
	b *newTimerBody,
	key string,
	stored *timer.Definition,
) (store.NewTimer, error) {
	var r bodyReader
	d := timer.Definition{
		Schedule: s.readSchedule(&b.Schedule, &r),
		Retry:    readRetry(b.Retry, &r),
		Misfire: readMisfire(
			b.Misfire,
			&r,
		),
		Concurrency: readConcurrency(b.Concurrency),
		Priority:    timer.Priority(b.Priority),
		Labels:      b.Labels,
	}
	d.Target, d.Fanout = s.readTargets(b.App, b.Target, b.Targets, b.Mode, stored, &r)
	n := store.NewTimer{
		App:            b.App,
		Name:           b.Name,
		Activate:       b.Status == string(timer.StatusActive),
		IdempotencyKey: key,
	}
	r.errs = append(r.errs, checkNames(b.App, b.Name)...)
	if err := s.checkDefinition(ctx, b.App, &d, &r); err != nil {
		return n, err
	}
	n.Definition = d
	if key != "" {
		n.RequestHash = hashOf(&n)
	}
	return n, nil
}

// changed applies the fields of a body to a definition.
func (s *Service) changed(
	app string,
	b *changeBody,
	d timer.Definition,
	r *bodyReader,
) timer.Definition {
	stored := d
	if b.Schedule != nil {
		d.Schedule = s.readSchedule(b.Schedule, r)
	}
	if b.Target != nil || b.Targets != nil {
		d.Target, d.Fanout = s.readTargets(app, b.Target, orZero(b.Targets), b.Mode, &stored, r)
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
	if b.Retry != nil {
		d.Retry = readRetry(b.Retry, r)
	}
	if b.Misfire != nil {
		d.Misfire = readMisfire(b.Misfire, r)
	}
	if b.Concurrency != nil {
		d.Concurrency = readConcurrency(b.Concurrency)
	}
	return d
}

// hashOf returns the hash that distinguishes requests under one idempotency key. It hashes the
// meaning, so the order of fields does not matter. Secrets enter in encrypted form. A hash of plain
// secrets would let anyone who reads the database guess them.
func hashOf(n *store.NewTimer) []byte {
	return hash(struct {
		App, Name  string
		Definition timer.Definition
		Activate   bool
	}{n.App, n.Name, n.Definition, n.Activate})
}

// hash hashes values that can always be encoded: texts, numbers and checked instants.
func hash(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	sum := sha256.Sum256(text)
	return sum[:]
}
