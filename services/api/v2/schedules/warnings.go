package schedules

import (
	"fmt"

	"github.com/carillon-timer/carillon/libs/schedule"
	"github.com/carillon-timer/carillon/services/api/input"
)

// WarningBody is about a valid value that is probably a mistake.
type WarningBody struct {
	Location string `json:"location" doc:"The field that it is about, as in errors." example:"body.schedule.end_at"`
	Message  string `json:"message" doc:"What will not happen as one may expect, and why."`
}

// PassedUntil says that an instant has passed, and what follows.
func PassedUntil(atMS int64, what string) string {
	return fmt.Sprintf("%s has passed: %s", input.Instant(atMS), what)
}

// ShowWarnings converts warnings.
func ShowWarnings(all []schedule.Warning) []WarningBody {
	var out []WarningBody
	for _, w := range all {
		out = append(out, WarningBody{"body." + w.Field, w.Message})
	}
	return out
}
