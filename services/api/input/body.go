package input

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/carillon-timer/carillon/libs/timer"
)

// MaxRequestBytes limits a request's body: the longest callback body with every byte escaped as
// \u00xx, and the rest.
const MaxRequestBytes = 2 << 20

// Prefixes of the paths of the two versions.
const (
	V1Prefix = "/api/timer/v1"
	V2Prefix = "/api/v2"
)

// BodyReader converts the texts of a body and collects their errors.
type BodyReader struct {
	Errs []*timer.Error
}

// Duration parses a duration such as "90s" or "1d12h", where a day has 24 hours. def is the value
// of an empty text.
func (r *BodyReader) Duration(field, text string, def timer.Duration) timer.Duration {
	if text == "" {
		return def
	}
	d, err := timer.ParseDuration(text)
	if err != nil {
		r.Errs = append(r.Errs, timer.Invalid(field, err.Error()))
		return def
	}
	return d
}

// Instant parses an instant; nil for an empty text. It converts to UTC, so that the same instant in
// another zone is the same definition.
func (r *BodyReader) Instant(field, text string) *time.Time {
	if text == "" {
		return nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		r.Errs = append(
			r.Errs,
			timer.Invalid(
				field,
				fmt.Sprintf(
					"expected an instant such as \"2030-01-31T09:00:00Z\", found %q",
					Clip(text),
				),
			),
		)
		return nil
	}
	at = at.UTC()
	return &at
}

// ScheduleInstant parses an instant that schedules can have.
func (r *BodyReader) ScheduleInstant(field, text string) *time.Time {
	at := r.Instant(field, text)
	if at != nil && (at.Before(time.UnixMilli(0)) || at.Year() > LastYear) {
		r.Invalid(field, fmt.Sprintf("expected an instant from 1970 to %d", LastYear))
	}
	return at
}

// Invalid adds an error about a field.
func (r *BodyReader) Invalid(field, msg string) { r.Add(timer.Invalid(field, msg)) }

// Add adds errors, at most one per field.
func (r *BodyReader) Add(errs ...*timer.Error) {
	for _, e := range errs {
		if e.Field == "" ||
			!slices.ContainsFunc(
				r.Errs,
				func(had *timer.Error) bool { return had.Field == e.Field },
			) {
			r.Errs = append(r.Errs, e)
		}
	}
}

// HasErrors returns whether a part of the body, such as "schedule", has errors.
func (r *BodyReader) HasErrors(part string) bool {
	for _, e := range r.Errs {
		if len(e.Field) > len(part) && e.Field[:len(part)+1] == part+"." {
			return true
		}
	}
	return false
}

// Hash hashes values that can always be encoded: texts, numbers and checked instants.
func Hash(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	sum := sha256.Sum256(text)
	return sum[:]
}
