package api

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/carillon-timer/carillon/libs/callback"
	"github.com/carillon-timer/carillon/libs/schedule"
	"github.com/carillon-timer/carillon/libs/timer"
)

// checkText refuses names that people could not tell apart or type: empty, too long, not printable, with space at an end.
func checkText(field, v string, most int) error {
	switch {
	case v == "":
		return timer.Invalid(field, "is required")
	case len(v) > most:
		return timer.Invalid(field, fmt.Sprintf("is %d bytes long: at most %d are allowed", len(v), most))
	case !utf8.ValidString(v) || strings.ContainsFunc(v, func(r rune) bool { return !unicode.IsPrint(r) || r == utf8.RuneError }):
		return timer.Invalid(field, "has characters that cannot be printed")
	case strings.TrimSpace(v) != v:
		return timer.Invalid(field, "starts or ends with a space")
	}
	return nil
}

// checkOwn refuses to change what Carillon registered for itself. field is where the caller named the app.
func checkOwn(field, app string) error {
	if app != timer.ReservedApp {
		return nil
	}
	return timer.Invalid(field, fmt.Sprintf("%q is Carillon's own app: its timers can be read, and neither made nor changed", app))
}

// checkTimer checks everything that a caller wrote, and returns all that is wrong. It puts defaults in.
func (s *Service) checkTimer(app, name string, d *timer.Definition) []*timer.Error {
	if d.Schedule.Kind == timer.KindCron && d.Schedule.Zone == "" && s.opts.Zone != time.UTC.String() {
		d.Schedule.Zone = s.opts.Zone // fixed now: a later change of the setting shall not move timers that exist
	}
	if d.Target.Method == "" {
		d.Target.Method = http.MethodPost
	}
	return collect(
		checkText("app", app, timer.MaxAppLen),
		checkOwn("app", app),
		checkText("name", name, timer.MaxNameLen),
		schedule.Check(&d.Schedule),
		callback.CheckTarget(&d.Target),
		checkRetry(&d.Retry),
	)
}

// Limits of a retry policy.
const (
	maxAttempts = 20
	maxWait     = 24 * time.Hour
	maxFactor   = 10
	minTimeout  = 10 * time.Millisecond
	maxTimeout  = 5 * time.Minute
)

func checkRetry(r *timer.Retry) error {
	between := func(d timer.Duration, least, most time.Duration) string {
		if v := time.Duration(d); v < least || v > most {
			return fmt.Sprintf("must lie between %s and %s", least, most)
		}
		return ""
	}
	switch {
	case r.Attempts < 1 || r.Attempts > maxAttempts:
		return timer.Invalid("retry.attempts", fmt.Sprintf("must lie between 1 and %d", maxAttempts))
	case !(r.Factor >= 1 && r.Factor <= maxFactor): // NaN, too
		return timer.Invalid("retry.factor", fmt.Sprintf("must lie between 1 and %d", maxFactor))
	}
	if msg := between(r.Wait, 0, maxWait); msg != "" {
		return timer.Invalid("retry.wait", msg)
	}
	if msg := between(r.MaxWait, 0, maxWait); msg != "" {
		return timer.Invalid("retry.max_wait", msg)
	}
	if msg := between(r.Timeout, minTimeout, maxTimeout); msg != "" {
		return timer.Invalid("retry.timeout", msg)
	}
	return nil
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
