package callback

import (
	"fmt"
	"slices"
	"strings"

	"github.com/carillon-timer/carillon/libs/timer"
)

// NoRetry checks that some target can answer each of the numbers in retry.no_retry; otherwise they
// are probably those of another protocol, and would do nothing.
func NoRetry(field string, t *timer.Target, f *timer.Fanout, set timer.Statuses) error {
	targets := f.Targets
	if !f.Several() {
		targets = []timer.Target{*t}
	}
	var names, expected []string
	var possible []timer.StatusRange
	for i := range targets {
		kind := kindOf(targets[i].Kind)
		if kind == nil {
			return nil // its error is another one
		}
		name := string(kind.Name())
		if slices.Contains(names, name) {
			continue
		}
		names = append(names, name)
		if r := kind.answers(); r.Last > 0 {
			possible = append(possible, r)
			expected = append(expected, fmt.Sprintf("%d to %d (%s)", r.First, r.Last, name))
		}
	}
	for _, r := range set {
		if r.Within(possible...) {
			continue
		}
		found := timer.Statuses{r}.String()
		if len(possible) == 0 {
			return timer.Invalid(field, fmt.Sprintf(
				"expected nothing, as no target of kind %s answers a status, found %q: leave it out",
				strings.Join(names, " or "),
				found,
			))
		}
		return timer.Invalid(field, fmt.Sprintf(
			"expected numbers that a target of the timer can answer, %s, found %q: leave it out, or give one of these",
			strings.Join(expected, " or "),
			found,
		))
	}
	return nil
}
