package api

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/carillon-timer/carillon/libs/schedule"
	"github.com/carillon-timer/carillon/libs/timer"
)

// checkText refuses names that are empty, too long, not printable, or have space at either end.
func checkText(field, v string, most int) error {
	switch {
	case v == "":
		return timer.Invalid(
			field,
			fmt.Sprintf("expected 1 to %d bytes of text, found nothing", most),
		)
	case len(v) > most:
		return timer.Invalid(
			field,
			fmt.Sprintf("expected at most %d bytes, found %d", most, len(v)),
		)
	case !utf8.ValidString(v) || strings.ContainsFunc(v, func(r rune) bool { return !unicode.IsPrint(r) || r == utf8.RuneError }):
		return timer.Invalid(
			field,
			"expected characters that can be printed, found others: leave them out",
		)
	case strings.TrimSpace(v) != v:
		return timer.Invalid(
			field,
			fmt.Sprintf("expected no space at its start and its end, found %q", v),
		)
	}
	return nil
}

// checkNotSystemApp refuses changes to Carillon's own app. field is where the caller named the app.
func checkNotSystemApp(field, app string) error {
	if app != timer.ReservedApp {
		return nil
	}
	return timer.Invalid(
		field,
		fmt.Sprintf(
			"expected another app, found %q, which is Carillon's own: its timers can be read, and neither made nor changed",
			app,
		),
	)
}

// checkNames checks the app and the name of a timer.
func checkNames(app, name string) []*timer.Error {
	return collect(
		checkText("app", app, timer.MaxAppLen),
		checkNotSystemApp("app", app),
		checkText("name", name, timer.MaxNameLen),
	)
}

// checkDefinition checks a whole definition and returns all its errors as one problem, including
// those already in r. It fills in defaults and removes values that equal them. Other errors, for
// example of the store, are returned unchanged.
func (s *Service) checkDefinition(
	ctx context.Context,
	app string,
	d *timer.Definition,
	r *bodyReader,
) error {
	if !r.hasErrors("schedule") {
		err := schedule.Check(&d.Schedule)
		r.errs = append(r.errs, collect(err)...)
		if err == nil {
			missing, err := s.missingCalendars(ctx, app, d.Schedule.Calendars)
			if err != nil {
				return err
			}
			r.errs = append(r.errs, missing...)
		}
	}
	if !r.hasErrors("misfire") {
		r.errs = append(r.errs, collect(schedule.CheckPolicies(d))...)
	}
	r.add(checkLabels(d.Labels)...)
	if err := s.checkTargets(ctx, app, d, r); err != nil {
		return err
	}
	r.add(checkRetry(&d.Retry)...)
	r.add(checkCodes(d)...)
	if len(r.errs) > 0 {
		return s.problems(r.errs)
	}
	dropDefaults(d)
	return nil
}

// missingCalendars returns an error for each name that is not a calendar of the app. It misses a
// calendar deleted a moment later, but the store refuses to delete one that a timer names.
func (s *Service) missingCalendars(
	ctx context.Context,
	app string,
	names []string,
) ([]*timer.Error, error) {
	var missing []*timer.Error
	for i, name := range names {
		_, err := s.opts.Store.Calendar(ctx, app, name)
		if timer.CodeOf(err) == timer.CodeNotFound {
			missing = append(missing, noCalendar(i, name))
			continue
		}
		if err != nil {
			return nil, err //nolint:wrapcheck // the store says what it was doing
		}
	}
	return missing, nil
}

func noCalendar(i int, name string) *timer.Error {
	return timer.Invalid(
		fmt.Sprintf("schedule.calendars[%d]", i),
		fmt.Sprintf(
			"expected a calendar of this app, found %q, which is none: make it first",
			name,
		),
	)
}

// Limits of a retry policy.
const (
	maxAttempts = 20
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
	if r.Attempts < 1 || r.Attempts > maxAttempts {
		wrong("attempts", "expected a number from 1 to %d, found %d", maxAttempts, r.Attempts)
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

// checkCodes refuses gRPC codes in a definition without a gRPC target, because the caller probably
// meant HTTP statuses.
func checkCodes(d *timer.Definition) []*timer.Error {
	byGRPC := func(t timer.Target) bool { return t.Kind == timer.KindGRPC }
	if !d.Retry.NoRetry.HasGRPCCodes() || byGRPC(d.Target) ||
		slices.ContainsFunc(d.Targets, byGRPC) {
		return nil
	}
	return []*timer.Error{
		timer.Invalid(
			"retry.no_retry",
			fmt.Sprintf(
				"expected statuses from 100 to 999 without a target of kind grpc, found %q: numbers below 100 are codes of gRPC",
				d.Retry.NoRetry.String(),
			),
		),
	}
}

// clip shortens a value for an error message.
func clip(text string) string {
	const most = 64 // bytes
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

func collect(errs ...error) []*timer.Error {
	var all []*timer.Error
	for _, err := range errs {
		if err == nil {
			continue
		}
		var e *timer.Error
		if !errors.As(err, &e) {
			e = &timer.Error{Code: timer.CodeInternal, Msg: "checking a definition", Err: err}
		}
		all = append(all, e)
	}
	return all
}
