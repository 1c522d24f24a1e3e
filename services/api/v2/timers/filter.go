package timers

import (
	"cmp"
	"fmt"
	"unicode/utf8"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/api/input"
)

// FilterParam selects timers of a list. Embedded structs are exported, because huma reads no others.
type FilterParam struct {
	Status       string `query:"status" enum:"active,inactive,paused" doc:"Only timers of this status."`
	Name         string `query:"name" maxLength:"128" doc:"Only the timer of this name."`
	Labels       string `query:"labels" doc:"Only timers whose labels meet a selector as in Kubernetes: team=pay,env!=dev,tier in (a,b),zone notin (x),owner,!legacy. All must hold; != and notin also hold where the label is missing. Names and values of other characters stand in double quotes." example:"team=pay,env!=dev"`
	NamePrefix   string `query:"name_prefix" maxLength:"128" doc:"Only timers whose name begins with it."`
	NameContains string `query:"name_contains" maxLength:"128" doc:"Only timers whose name contains it, with its case. In a large app it is found soonest with sort=name."`
	TargetHost   string `query:"target_host" maxLength:"256" doc:"Only timers that call this host: the host of a target's URL, without port. Hosts that templates fill in are not found." example:"pay.example"`
	DueAfter     string `query:"due_after" doc:"Only active timers whose next due instant is this one (RFC 3339) or later."`
	DueBefore    string `query:"due_before" doc:"Only active timers whose next due instant is before this one (RFC 3339)."`
	LastOutcome  string `query:"last_outcome" enum:"delivered,failed,skipped,none" doc:"Only timers whose last_outcome is this."`
}

// filter converts the parameters. The name is left to the caller.
func (s *Resource) filter(app string, in *FilterParam) (store.Filter, error) {
	f := store.Filter{
		App:          app,
		Status:       timer.Status(in.Status),
		NamePrefix:   in.NamePrefix,
		NameContains: in.NameContains,
		TargetHost:   store.HostKey(in.TargetHost),
		LastOutcome:  timer.OutcomeKind(in.LastOutcome),
	}
	var r input.BodyReader
	var err error
	if f.Labels, err = input.ParseSelector(in.Labels); err != nil {
		r.Invalid("query.labels", "expected a selector such as \"team=pay,env!=dev\": "+err.Error())
	}
	for _, q := range []struct{ name, text string }{
		{"name_prefix", in.NamePrefix}, {"name_contains", in.NameContains},
	} {
		if !utf8.ValidString(q.text) { // the databases compare it differently
			r.Invalid("query."+q.name, fmt.Sprintf("expected text in UTF-8, found %q", q.text))
		}
	}
	if at := r.Instant("query.due_after", in.DueAfter); at != nil {
		f.DueFromMS = max(1, input.CeilMS(*at))
	}
	if at := r.Instant("query.due_before", in.DueBefore); at != nil {
		if f.DueToMS = max(1, input.CeilMS(*at)); f.DueToMS <= f.DueFromMS {
			r.Invalid("query.due_before", fmt.Sprintf(
				"expected an instant later than due_after (%q), found %q",
				in.DueAfter, input.Clip(in.DueBefore),
			))
		}
	}
	if len(r.Errs) > 0 {
		return f, s.Definitions.Problems.Invalid(r.Errs)
	}
	return f, nil
}

// isPlain reports whether the filter and the order are those that API versions before 2.9.0 know.
func (in *listTimersInput) isPlain() bool {
	plain := listTimersInput{FilterParam: FilterParam{Status: in.Status, Name: in.Name}}
	return in.FilterParam == plain.FilterParam && cmp.Or(in.Sort, "id") == "id" &&
		cmp.Or(in.Order, "asc") == "asc"
}
