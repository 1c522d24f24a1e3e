package api

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"time"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// newTimer turns a body into what the store takes, or returns all that is wrong with it.
func (s *Service) newTimer(b *newTimerBody, key string) (store.NewTimer, []*timer.Error) {
	var bad []*timer.Error
	duration := func(field, text string, def timer.Duration) timer.Duration {
		if text == "" {
			return def
		}
		d, err := time.ParseDuration(text)
		if err != nil {
			bad = append(bad, timer.Invalid(field, fmt.Sprintf("%q is not a duration such as \"90s\" or \"1h30m\"", text)))
			return def
		}
		return timer.Duration(d)
	}
	d := timer.Definition{
		Schedule: timer.Schedule{
			Kind: timer.ScheduleKind(b.Schedule.Kind), Specs: b.Schedule.Specs, Zone: b.Schedule.Zone,
			Delay: duration("schedule.delay", b.Schedule.Delay, 0),
		},
		Target: timer.Target{
			Kind: timer.TargetKind(b.Target.Kind), URL: b.Target.URL, Method: b.Target.Method, Headers: b.Target.Headers, Body: b.Target.Body,
		},
		Retry: timer.DefaultRetry(),
	}
	if b.Schedule.At != "" {
		at, err := time.Parse(time.RFC3339, b.Schedule.At)
		if err != nil {
			bad = append(bad, timer.Invalid("schedule.at", "is not an instant such as \"2030-01-31T09:00:00Z\""))
		}
		at = at.UTC() // the same instant written in another zone is the same definition
		d.Schedule.At = &at
	}
	if r := b.Retry; r != nil {
		d.Retry.Wait = duration("retry.wait", r.Wait, d.Retry.Wait)
		d.Retry.MaxWait = duration("retry.max_wait", r.MaxWait, d.Retry.MaxWait)
		d.Retry.Timeout = duration("retry.timeout", r.Timeout, d.Retry.Timeout)
		if r.Attempts != nil {
			d.Retry.Attempts = *r.Attempts
		}
		if r.Factor != nil {
			d.Retry.Factor = *r.Factor
		}
	}
	if len(bad) == 0 {
		bad = s.checkTimer(b.App, b.Name, &d)
	}
	n := store.NewTimer{App: b.App, Name: b.Name, Definition: d, Activate: b.Status == string(timer.StatusActive), IdempotencyKey: key}
	if key != "" && len(bad) == 0 {
		n.RequestHash = hashOf(&n)
	}
	return n, bad
}

// hashOf tells two requests under one idempotency key apart: it is of what the request means, so that another order of fields
// is the same request.
func hashOf(n *store.NewTimer) []byte {
	text, err := json.Marshal(struct {
		App, Name  string
		Definition timer.Definition
		Activate   bool
	}{n.App, n.Name, n.Definition, n.Activate})
	if err != nil {
		panic(err) // texts, numbers and an instant in a checked year can always be encoded
	}
	sum := sha256.Sum256(text)
	return sum[:]
}
