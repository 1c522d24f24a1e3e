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

// bodyReader gathers what is wrong with the texts of a body.
type bodyReader struct {
	errs []*timer.Error
}

// duration reads a duration such as "90s" or "1d12h", of which a day has 24 hours; def where there
// is none.
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

// instant reads an instant; nil where there is none. The same instant written in another zone is
// the same definition.
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

// invalid notes what is wrong with a field.
func (r *bodyReader) invalid(field, msg string) { r.add(timer.Invalid(field, msg)) }

// add notes what is wrong, once of each field.
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

// hasErrors tells whether something is wrong with a part of a body ("schedule").
func (r *bodyReader) hasErrors(part string) bool {
	for _, e := range r.errs {
		if len(e.Field) > len(part) && e.Field[:len(part)+1] == part+"." {
			return true
		}
	}
	return false
}

// newTimer turns a body into what the store takes, or returns all that is wrong with it. stored is
// the definition that REDACTED secrets are taken from; it may be nil.
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

// changed puts what a body brings into a definition.
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

// hashOf tells two requests under one idempotency key apart: it is of what the request means, so
// that another order of fields is the same request. Of secrets it has the sealed text, and so it
// says nothing of them: a hash of what was sent would let whoever reads the database guess at them.
func hashOf(n *store.NewTimer) []byte {
	return hash(struct {
		App, Name  string
		Definition timer.Definition
		Activate   bool
	}{n.App, n.Name, n.Definition, n.Activate})
}

// hash is of what can always be encoded: texts, numbers and instants in a checked year.
func hash(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	sum := sha256.Sum256(text)
	return sum[:]
}
