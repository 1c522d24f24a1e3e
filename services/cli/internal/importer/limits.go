package importer

import (
	"maps"
	"math"
	"slices"
	"time"

	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/api/definition"
)

// Limits of the API. TestLimitsAreThoseOfTheAPI compares them with its check.
const (
	minTimeout = 10 * time.Millisecond
	maxTimeout = 5 * time.Minute
)

// attempts sets how often a call is attempted, the first time included. option is what asks for it.
func (e *entry) attempts(option string, n int) {
	if n > definition.MaxAttempts {
		e.notef(
			"%s asks for %d attempts: retry.attempts is %[3]d, the most that there can be",
			option, n, definition.MaxAttempts,
		)
		n = definition.MaxAttempts
	}
	e.field("retry")["attempts"] = n
}

// timeout sets how long one attempt may take.
func (e *entry) timeout(option string, d time.Duration) {
	if within := min(max(d, minTimeout), maxTimeout); within != d {
		e.notef(
			"%s asks for a timeout of %s: retry.timeout is %s, as it must be from %s to %s; "+
				"work that takes longer can be completed later: see target.async",
			option, d, within, minTimeout, maxTimeout,
		)
		d = within
	}
	e.field("retry")["timeout"] = d.String()
}

// seconds returns a number of seconds as a duration, at most some 292 years.
func seconds(n int64) time.Duration {
	const most = int64(math.MaxInt64 / time.Second)
	return time.Duration(min(n, most)) * time.Second
}

// catchUp sets the lateness from which a fire never runs.
func (e *entry) catchUp(option string, d time.Duration) {
	e.notef("%s is the catch-up window", option)
	// 0 would be no limit.
	if within := min(max(d, time.Second), time.Duration(timer.MaxCatchUpWindow)); within != d {
		e.notef(
			"%s is %s: misfire.catch_up_window is %s, as it must be from 1s to %[4]s",
			option, d, within, time.Duration(timer.MaxCatchUpWindow),
		)
		d = within
	}
	e.field("misfire")["catch_up_window"] = d.String()
}

// labels sets the labels, and leaves out those that the API refuses.
func (e *entry) labels(all map[string]string) {
	kept := make(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		switch bad := definition.CheckLabels(map[string]string{name: all[name]}); {
		case len(bad) > 0:
			e.notef("the label %s is left out: %s", name, bad[0].Msg)
		case len(kept) == timer.MaxLabels:
			e.notef("the label %s is left out: there can be at most %d", name, timer.MaxLabels)
		default:
			kept[name] = all[name]
		}
	}
	if len(kept) > 0 {
		e.body["labels"] = kept
	}
}
