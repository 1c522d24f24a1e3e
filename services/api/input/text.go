package input

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/carillon-timer/carillon/libs/timer"
)

// CheckText refuses names that are empty, too long, not printable, or have space at either end.
func CheckText(field, v string, most int) error {
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

// CheckNewApp checks the name of an app in requests that would create it if it is missing.
func CheckNewApp(field, app string) error { return checkPathName(field, app, timer.MaxAppLen) }

// CheckNewCalendar checks the name of a calendar in requests that would create it if it is missing.
func CheckNewCalendar(field, name string) error {
	return checkPathName(field, name, timer.MaxNameLen)
}

// checkPathName checks a name that is part of paths. Browsers and clients remove . and .. from these,
// so what has such a name could not be reached.
func checkPathName(field, name string, most int) error {
	if name == "." || name == ".." {
		return timer.Invalid(field, fmt.Sprintf(
			"expected a name other than . and .., which mean other things in paths, found %q: "+
				"choose another name", name))
	}
	return CheckText(field, name, most)
}

// CheckNotSystemApp refuses changes to Carillon's own app. field is where the caller named the app.
func CheckNotSystemApp(field, app string) error {
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

// CheckNames checks the app and the name of a timer.
func CheckNames(app, name string) []*timer.Error {
	return Collect(
		CheckNewApp("app", app),
		CheckNotSystemApp("app", app),
		CheckText("name", name, timer.MaxNameLen),
	)
}

// Clip shortens a value for an error message.
func Clip(text string) string {
	const most = 64 // bytes
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

// Collect returns the errors that are not nil. An error that is no *timer.Error becomes an internal one.
func Collect(errs ...error) []*timer.Error {
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

// OrZero returns an optional body, or its zero value.
func OrZero[T any](b *T) T {
	if b == nil {
		b = new(T)
	}
	return *b
}
