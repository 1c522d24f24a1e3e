package definition

import (
	"fmt"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/api/input"
)

// RetryBody is a retry policy.
type RetryBody struct {
	Attempts *int     `json:"attempts,omitempty" doc:"Attempts in all, 1 to 20; 3 by default."`
	Wait     string   `json:"wait,omitempty" doc:"Before the second attempt, 0s to 24h; 1s by default." example:"1s"`
	Factor   *float64 `json:"factor,omitempty" doc:"Each further wait is so many times longer, 1 to 10; 2 by default."`
	MaxWait  string   `json:"max_wait,omitempty" doc:"No wait is longer, 0s to 24h; 1h by default. A receiver may ask for up to 24h by Retry-After." example:"1h"`
	Timeout  string   `json:"timeout,omitempty" doc:"Of one attempt, 10ms to 5m; 5s by default." example:"5s"`

	Jitter      float64 `json:"jitter,omitempty" doc:"Up to this share of a wait is taken off it at random, 0 to 1; none by default."`
	GiveUpAfter string  `json:"give_up_after,omitempty" doc:"No retry starts later than so long after the planned instant; longer than 0s, at most 30 days (720h), and no bound where it is left out. The first attempt is made however late it is: misfire decides about late fires." example:"6h"`
	NoRetry     string  `json:"no_retry,omitempty" doc:"Statuses that no further attempt can mend, and for grpc targets codes from 1 to 16; all others are retried. Some target must be able to answer each of them; pulsar targets answer none. Of several targets it gives up the one that answered, and the others keep their retries. 410 pauses the timer all the same." example:"400-404,422"`
}

// misfirePolicy is a misfire policy that callers may request.
type misfirePolicy string

// Schema lists the policies.
func (misfirePolicy) Schema(huma.Registry) *huma.Schema {
	s := &huma.Schema{Type: huma.TypeString}
	for _, p := range timer.MisfirePolicies() {
		s.Enum = append(s.Enum, string(p.Policy))
	}
	return s
}

// MisfireBody is a misfire policy.
type MisfireBody struct {
	Policy        misfirePolicy `json:"policy,omitempty" doc:"What becomes of fires that come late because nobody could run them in time. By default at and delay run however late (fire_all), and what recurs catches up once (fire_once)."`
	Grace         string        `json:"grace,omitempty" doc:"What is later than this is late; longer than 0s, at most 24h; 1m by default." example:"1m"`
	CatchUpWindow string        `json:"catch_up_window,omitempty" doc:"What is later than this never runs; from 1ms to 10 years (3650d), and no bound where it is left out." example:"24h"`
	MaxFires      int           `json:"max_fires,omitempty" minimum:"0" doc:"For policy fire_all alone: the latest so many run, at most 10000; 1000 by default."`
}

// ConcurrencyBody is a concurrency policy.
type ConcurrencyBody struct {
	Policy   string `json:"policy,omitempty" enum:"allow,skip,queue_one,queue_all,cancel_previous" doc:"What becomes of a fire of the schedule whose predecessor, with all its retries, has not finished; allow by default. A fire of a run-now, a backfill or a redrive waits for its predecessor, except with allow."`
	MaxQueue int    `json:"max_queue,omitempty" minimum:"0" doc:"For policy queue_all alone: how many fires of the schedule may wait, at most 10000; 100 by default."`
}

// ReadRetry converts a body; nil is the default.
func ReadRetry(b *RetryBody, r *input.BodyReader) timer.Retry {
	out := timer.DefaultRetry()
	if b == nil {
		return out
	}
	out.Wait = r.Duration("retry.wait", b.Wait, out.Wait)
	out.MaxWait = r.Duration("retry.max_wait", b.MaxWait, out.MaxWait)
	out.Timeout = r.Duration("retry.timeout", b.Timeout, out.Timeout)
	out.Jitter, out.GiveUpAfter = b.Jitter, r.Duration("retry.give_up_after", b.GiveUpAfter, 0)
	if b.GiveUpAfter != "" && out.GiveUpAfter == 0 { // which would be no bound
		r.Invalid("retry.give_up_after", fmt.Sprintf(
			"expected more than 0s, found %q: leave it out for no bound",
			input.Clip(b.GiveUpAfter)))
	}
	var err error
	if out.NoRetry, err = timer.ParseStatusesAndCodes(b.NoRetry); err != nil {
		r.Invalid("retry.no_retry", err.Error())
	}
	if b.Attempts != nil {
		out.Attempts = *b.Attempts
	}
	if b.Factor != nil {
		out.Factor = *b.Factor
	}
	return out
}

// ReadMisfire converts a body; nil is the default.
func ReadMisfire(b *MisfireBody, r *input.BodyReader) timer.Misfire {
	if b == nil {
		return timer.Misfire{}
	}
	grace := r.Duration("misfire.grace", b.Grace, 0)
	if b.Grace != "" && grace == 0 {
		r.Invalid(
			"misfire.grace",
			"expected more than 0s, as every call is late by something, found 0s: leave it out for 1m",
		)
	}
	window := r.Duration("misfire.catch_up_window", b.CatchUpWindow, 0)
	if b.CatchUpWindow != "" && window >= 0 && window < timer.Duration(time.Millisecond) {
		r.Invalid(
			"misfire.catch_up_window",
			fmt.Sprintf( // lateness is in ms, and 0 would be no bound
				"expected at least 1ms, found %q: leave it out for no bound",
				input.Clip(b.CatchUpWindow)),
		)
	}
	return timer.Misfire{
		Policy:        timer.MisfirePolicy(b.Policy),
		Grace:         grace,
		CatchUpWindow: window,
		MaxFires:      b.MaxFires,
	}
}

// ReadConcurrency converts a body; nil is the default.
func ReadConcurrency(b *ConcurrencyBody) timer.Concurrency {
	if b == nil {
		return timer.Concurrency{}
	}
	return timer.Concurrency{Policy: timer.ConcurrencyPolicy(b.Policy), MaxQueue: b.MaxQueue}
}

// Policies are shown with every default written out.

// ShowRetry converts a policy.
func ShowRetry(r *timer.Retry) RetryBody {
	return RetryBody{
		Attempts: &r.Attempts, Wait: time.Duration(r.Wait).String(), Factor: &r.Factor,
		MaxWait: time.Duration(r.MaxWait).String(), Timeout: time.Duration(r.Timeout).String(),
		Jitter: r.Jitter, GiveUpAfter: showDuration(r.GiveUpAfter), NoRetry: r.NoRetry.String(),
	}
}

// ShowMisfire converts the misfire policy of a definition.
func ShowMisfire(d *timer.Definition) MisfireBody {
	m := d.Misfire.For(d.Schedule.Kind)
	b := MisfireBody{
		Policy:        misfirePolicy(m.Policy),
		Grace:         showDuration(m.Grace),
		CatchUpWindow: showDuration(m.CatchUpWindow),
	}
	if m.Policy == timer.MisfireFireAll {
		b.MaxFires = m.MaxFires
	}
	return b
}

// ShowConcurrency converts the concurrency policy of a definition.
func ShowConcurrency(d *timer.Definition) ConcurrencyBody {
	c := d.Concurrency.Resolved()
	b := ConcurrencyBody{Policy: string(c.Policy)}
	if c.Policy == timer.ConcurrencyQueueAll {
		b.MaxQueue = c.MaxQueue
	}
	return b
}
