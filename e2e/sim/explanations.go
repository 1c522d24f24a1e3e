package sim

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/explain"
	"github.com/carillon-timer/carillon/libs/timer"
)

// explainPage is small, so that most timers have several pages of explanations.
const explainPage = 100

// checkExplanations compares explanations with what happened, for every instant of every timer. An
// instant with an outcome is explained by it. An instant without one is explained by the status
// that the timer had. Nothing is unknown, because everything is within retention.
func (env *Environment) checkExplanations(t *testing.T) {
	t.Helper()
	seen := env.recorder.starts()
	for i := range env.plan.Timers {
		o := &env.plan.Timers[i]
		h, ok := env.observer.historyOf(o.name)
		if !ok || len(h.changes) == 0 {
			continue
		}
		recorded := env.outcomesOf(t, o, &h).byFire
		answers := env.explanations(t, &h)
		for due, out := range recorded {
			if a, ok := answers[due]; !ok || a.Outcome == nil || a.Outcome.Kind != out.Kind ||
				a.Outcome.Reason != out.Reason || !a.Due && out.Reason != timer.ReasonSuperseded {
				env.failf("%s of %s is %s (%s), and explained as %q: %s",
					out.FireID, o.name, out.Kind, out.Reason, a.Code, a.Text)
			}
		}
		for _, due := range env.allDue(o, &h) {
			if _, ok := recorded[due]; !ok {
				env.checkNoFire(o, &h, due, answers[due])
			}
		}
		env.checkUnexpected(o, &h, answers, recorded)
		env.checkLives(t, o, &h, recorded, seen)
	}
}

// explanations reads the explanations of the schedule's instants, page by page.
func (env *Environment) explanations(t *testing.T, h *history) map[int64]explain.Answer {
	t.Helper()
	out := make(map[int64]explain.Answer)
	from := env.startTime.UnixMilli()
	for from != 0 {
		facts := env.explain(t.Context(), t, h, from, time.Now().UnixMilli())
		for _, a := range facts.Explain() {
			out[a.AtMS] = a
		}
		from = facts.Next()
	}
	return out
}

func (env *Environment) explain(
	ctx context.Context, t *testing.T, h *history, from, to int64,
) *explain.Facts {
	t.Helper()
	facts, err := explain.Read(ctx, env.store, explain.Query{
		App: h.app, ID: h.id, FromMS: from, ToMS: to, Limit: explainPage,
		NowMS: time.Now().UnixMilli(),
	})
	require.NoError(t, err)
	return facts
}

// allDue returns every due instant of a cron or interval since its first activation.
func (env *Environment) allDue(o *timerPlan, h *history) []int64 {
	if o.step == 0 || o.fixed {
		return nil
	}
	return dueInstants(o, h, h.changes[0].at, env.startTime.Add(o.end).UnixMilli())
}

// checkNoFire checks the explanation of a due instant without an outcome. If the timer was active,
// the ledger has found the fault, and the explanation must call it missing.
func (env *Environment) checkNoFire(o *timerPlan, h *history, due int64, a explain.Answer) {
	want := explain.Missing
	switch h.changes[max(0, h.at(due))].status {
	case timer.StatusPaused:
		want = explain.Paused
	case timer.StatusInactive:
		want = explain.Inactive
	case timer.StatusDeleted:
		want = explain.Deleted
	case timer.StatusActive:
	}
	if a.Code != want {
		env.failf("%s of %s has no outcome, expected %q, explained as %q: %s",
			stamp(due), o.name, want, a.Code, a.Text)
	}
}

var unknownCodes = []explain.Code{
	explain.BeyondRetention, explain.CalendarChanged, explain.UnknownSchedule,
}

// checkUnexpected checks the explanations of instants that were not due, and that nothing is
// unknown.
func (env *Environment) checkUnexpected(
	o *timerPlan, h *history, answers map[int64]explain.Answer, recorded map[int64]timer.Outcome,
) {
	dues := env.allDue(o, h)
	for at, a := range answers {
		if slices.Contains(unknownCodes, a.Code) {
			env.failf("%s of %s cannot be explained: %s", stamp(at), o.name, a.Text)
		}
		_, found := recorded[at]
		_, due := slices.BinarySearch(dues, at)
		if a.Due && !found && !due && o.step != 0 && at >= h.changes[0].at {
			env.failf("%s of %s was not due, and is explained as %q: %s",
				stamp(at), o.name, a.Code, a.Text)
		}
	}
}

// addScheduler keeps the metrics of a scheduler.
func (env *Environment) addScheduler(reg *prometheus.Registry) {
	env.mu.Lock()
	defer env.mu.Unlock()
	env.schedulers = append(env.schedulers, reg)
}

// missingFound returns how many missing fires the schedulers found, and checks that they searched.
func (env *Environment) missingFound(t *testing.T) (missing int) {
	t.Helper()
	env.mu.Lock()
	schedulers := env.schedulers
	env.mu.Unlock()
	searched := 0
	for _, reg := range schedulers {
		families, err := reg.Gather()
		require.NoError(t, err)
		for _, f := range families {
			n := int(f.GetMetric()[0].GetCounter().GetValue())
			switch f.GetName() {
			case "carillon_scheduler_missing_fires_total":
				missing += n
			case "carillon_scheduler_searched_instants_total":
				searched += n
			}
		}
	}
	if searched == 0 {
		env.failf("no scheduler searched for missing fires")
	}
	return missing
}
