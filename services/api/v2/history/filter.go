package history

import (
	"context"
	"fmt"
	"time"

	"github.com/carillon-timer/carillon/libs/selector"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/api/input"
	"github.com/carillon-timer/carillon/services/api/v2/param"
)

// FilterParam selects finished fires. Embedded structs are exported, because huma reads no others.
type FilterParam struct {
	State       []string `query:"state" enum:"delivered,failed,skipped" doc:"Only fires with these outcomes, separated by commas."`
	Reason      []string `query:"reason" enum:"inactive,paused,frozen,deleted,misfired,superseded,overlap,queue_full,cancelled,exhausted,not_retried,gave_up,gone,rejected" doc:"Only fires that were skipped or failed for these reasons, separated by commas."`
	Cause       []string `query:"cause" enum:"schedule,run_now,backfill,redrive" doc:"Only fires that exist for these causes, separated by commas."`
	Timer       string   `query:"timer" maxLength:"128" doc:"Only fires of this timer: its id, or its name. A deleted timer is known by its id only."`
	Labels      string   `query:"labels" maxLength:"4096" doc:"Only fires of timers with these labels: a selector such as team=pay,env!=dev,tier in (a,b),owner,!legacy. The labels are those of the version that the fire belongs to."`
	DueFrom     string   `query:"due_from" maxLength:"40" doc:"Only fires due at this instant (RFC 3339) or later."`
	DueTo       string   `query:"due_to" maxLength:"40" doc:"Only fires due before this instant (RFC 3339)."`
	MinLateness string   `query:"min_lateness" maxLength:"32" doc:"Only fires that were called this late or later, such as 500ms."`
	MaxLateness string   `query:"max_lateness" maxLength:"32" doc:"Only fires that were called no later than this, such as 1s."`
}

// filter is a checked FilterParam.
type filter struct {
	store.OutcomeFilter

	labels selector.Selector
}

// filter checks a request's selection. The app must be the caller's.
func (s *Resource) filter(ctx context.Context, app string, in *FilterParam) (*filter, error) {
	var r input.BodyReader
	f := &filter{}
	for _, state := range in.State {
		f.Kinds = append(f.Kinds, timer.OutcomeKind(state))
	}
	for _, reason := range in.Reason {
		f.Reasons = append(f.Reasons, timer.Reason(reason))
	}
	for _, name := range in.Cause {
		for _, c := range []timer.Cause{timer.CauseSchedule, timer.CauseRunNow, timer.CauseBackfill, timer.CauseRedrive} {
			if c.String() == name {
				f.Causes = append(f.Causes, c)
			}
		}
	}
	if at := r.Instant("query.due_from", in.DueFrom); at != nil {
		f.DueFromMS = input.CeilMS(*at)
	}
	if at := r.Instant("query.due_to", in.DueTo); at != nil {
		// 0 would be no bound.
		f.DueToMS = max(1, input.CeilMS(*at))
		if in.DueFrom != "" && input.CeilMS(*at) <= f.DueFromMS {
			r.Invalid("query.due_to", fmt.Sprintf(
				"expected an instant later than due_from (%q), found %q", in.DueFrom, in.DueTo))
		}
	}
	f.MinLatenessMS = lateness(&r, "query.min_lateness", in.MinLateness)
	f.MaxLatenessMS = lateness(&r, "query.max_lateness", in.MaxLateness)
	if f.MinLatenessMS != nil && f.MaxLatenessMS != nil && *f.MaxLatenessMS < *f.MinLatenessMS {
		r.Invalid("query.max_lateness", fmt.Sprintf(
			"expected no less than min_lateness (%s), found %s", in.MinLateness, in.MaxLateness))
	}
	var err error
	if f.labels, err = input.ParseSelector(in.Labels); err != nil {
		r.Invalid("query.labels", err.Error())
	}
	if len(r.Errs) > 0 {
		return nil, s.Problems.Invalid(r.Errs) //nolint:wrapcheck // it is the answer
	}
	if in.Timer != "" {
		id, err := s.findTimer(ctx, app, in.Timer)
		if err != nil {
			return nil, err
		}
		f.Timers = []timer.ID{id}
	}
	return f, nil
}

// lateness reads a duration of whole milliseconds, nil for an empty text.
func lateness(r *input.BodyReader, field, text string) *int64 {
	if text == "" {
		return nil
	}
	d := r.Duration(field, text, 0)
	if d < 0 {
		r.Invalid(field, "expected a duration of at least 0s, found "+text)
	}
	ms := time.Duration(d).Milliseconds()
	return &ms
}

// findTimer returns the id of a timer of the app, which may be a deleted one.
func (s *Resource) findTimer(ctx context.Context, app, text string) (timer.ID, error) {
	found, ok, err := param.FindTimer(ctx, s.Store, app, text)
	if err == nil && !ok {
		err = &timer.Error{Code: timer.CodeNotFound, Field: "query.timer", Msg: fmt.Sprintf(
			"no timer %q in this app: give the name or the id of one that is in its list of timers",
			input.Clip(text),
		)}
	}
	return found.ID, err //nolint:wrapcheck // the store says what it was doing
}
