package definition

import (
	"context"
	"fmt"
	"time"

	"github.com/carillon-timer/carillon/libs/callback"
	"github.com/carillon-timer/carillon/libs/egress"
	"github.com/carillon-timer/carillon/libs/encryption"
	"github.com/carillon-timer/carillon/libs/schedule"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/api/input"
	"github.com/carillon-timer/carillon/services/api/problem"
)

// Store is the part of the store that a Reader needs.
type Store interface {
	App(ctx context.Context, name string) (store.App, error)
	Calendar(ctx context.Context, app, name string) (store.CalendarVersion, error)
}

// Reader converts what callers send to definitions.
type Reader struct {
	Store    Store
	Problems *problem.Reporter
	// Secrets encrypts secrets; nil: definitions with secrets or asynchronous targets are refused.
	Secrets *encryption.Keyring
	Tokens  *callback.CompletionTokens // nil: no asynchronous targets
	Zone    string                     // IANA zone of cron expressions and calendars without one

	Egress         *egress.Policy // of the deployment
	Topics         *egress.Topics // where pulsar targets may publish
	AllowInsecure  bool           // whether targets may skip certificate verification
	ReservedHeader string         // that no target may send; empty: none
	Kinds          []timer.TargetKind
	OwnNamespace   string // of the deployment's own Pulsar; empty: it has none
}

// CheckDefinition checks a whole definition of the timer name and returns all its errors as one
// problem, including those already in r. It fills in defaults and removes values that equal them.
// Other errors, for example of the store, are returned unchanged.
func (s *Reader) CheckDefinition(
	ctx context.Context,
	app, name string,
	d *timer.Definition,
	r *input.BodyReader,
) error {
	if !r.HasErrors("schedule") {
		err := schedule.Check(&d.Schedule)
		r.Errs = append(r.Errs, input.Collect(err)...)
		if err == nil {
			missing, err := s.missingCalendars(ctx, app, d.Schedule.Calendars)
			if err != nil {
				return err
			}
			r.Errs = append(r.Errs, missing...)
		}
	}
	if !r.HasErrors("misfire") {
		r.Errs = append(r.Errs, input.Collect(schedule.CheckPolicies(d))...)
	}
	r.Add(CheckLabels(d.Labels)...)
	if err := s.checkTargets(ctx, app, name, d, r); err != nil {
		return err
	}
	r.Add(checkRetry(&d.Retry)...)
	r.Add(input.Collect(
		callback.NoRetry("retry.no_retry", &d.Target, &d.Fanout, d.Retry.NoRetry))...)
	if len(r.Errs) > 0 {
		return s.Problems.Invalid(r.Errs)
	}
	DropDefaults(d)
	return nil
}

// missingCalendars returns an error for each name that is not a calendar of the app. The store
// refuses the first that was deleted since.
func (s *Reader) missingCalendars(
	ctx context.Context,
	app string,
	names []string,
) ([]*timer.Error, error) {
	var missing []*timer.Error
	for i, name := range names {
		_, err := s.Store.Calendar(ctx, app, name)
		if timer.CodeOf(err) == timer.CodeNotFound {
			missing = append(missing, store.NoCalendar(i, name))
			continue
		}
		if err != nil {
			return nil, err //nolint:wrapcheck // the store says what it was doing
		}
	}
	return missing, nil
}

// Limits of a retry policy.
const (
	MaxAttempts = 20
	maxWait     = 24 * time.Hour
	maxFactor   = 10
	minTimeout  = 10 * time.Millisecond
	maxTimeout  = 5 * time.Minute
	maxGiveUp   = 30 * 24 * time.Hour
)

func checkRetry(r *timer.Retry) []*timer.Error {
	var bad []*timer.Error
	wrong := func(field, msg string, args ...any) {
		bad = append(bad, timer.Invalid("retry."+field, fmt.Sprintf(msg, args...)))
	}
	between := func(field string, d timer.Duration, least, most time.Duration) {
		if v := time.Duration(d); v < least || v > most {
			wrong(field, "expected a duration from %s to %s, found %s", least, most, v)
		}
	}
	if r.Attempts < 1 || r.Attempts > MaxAttempts {
		wrong("attempts", "expected a number from 1 to %d, found %d", MaxAttempts, r.Attempts)
	}
	if !(r.Factor >= 1 && r.Factor <= maxFactor) { // also refuses NaN
		wrong("factor", "expected a number from 1 to %d, found %v", maxFactor, r.Factor)
	}
	if !(r.Jitter >= 0 && r.Jitter <= 1) {
		wrong("jitter", "expected a number from 0 to 1, found %v", r.Jitter)
	}
	between("wait", r.Wait, 0, maxWait)
	between("max_wait", r.MaxWait, 0, maxWait)
	between("timeout", r.Timeout, minTimeout, maxTimeout)
	between("give_up_after", r.GiveUpAfter, 0, maxGiveUp)
	return bad
}
