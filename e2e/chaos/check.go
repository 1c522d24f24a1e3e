package chaos

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/carillon-timer/carillon/e2e/ledger"
	"github.com/carillon-timer/carillon/e2e/receiver"
	"github.com/carillon-timer/carillon/libs/clock"
	"github.com/carillon-timer/carillon/libs/timer"
)

const (
	// changeDeadline is the time within which a status change reaches every executor (P5).
	changeDeadline = time.Second
	// clockTolerance is the greatest apparent difference of clocks on one machine. The deciding
	// clocks are aligned to the database's.
	clockTolerance = 100 * time.Millisecond
	// settleTimeout is how long open fires may take to end after the load, in addition to the
	// outages.
	settleTimeout = 2 * time.Minute
)

// settle waits until the load has no open fire, and compares the results.
func (env *Environment) settle(s *Scenario, end time.Time) *Result {
	wait := settleTimeout + s.SettleTime
	for _, f := range env.faults {
		wait += f.outageLength()
	}
	until := end.Add(maxAhead + 2*time.Second) // one-shots are due until then
	last := until.Add(wait)
	clock.Pause(env.ctx, time.Until(until))
	for {
		n, err := env.openFires(until)
		if err == nil && n == 0 || time.Now().After(last) || env.ctx.Err() != nil {
			break
		}
		env.printf("  %d fires are open (%v)", n, err)
		clock.Pause(env.ctx, 2*time.Second)
	}
	v, err := env.compare(end)
	r := env.buildResult(s, end, v)
	if err != nil {
		r.Broken = append(r.Broken, err.Error())
	}
	return r
}

// openFires counts the unfinished fires that were due before an instant.
func (env *Environment) openFires(before time.Time) (n int, err error) {
	ctx, cancel := context.WithTimeout(env.ctx, 20*time.Second)
	defer cancel()
	err = env.db.QueryRowContext(ctx, "SELECT COUNT(*) FROM fires WHERE due_ms < ?", before.UnixMilli()).
		Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("counting open fires: %w", err)
	}
	return n, nil
}

// compare checks the calls and outcomes against the ledger.
func (env *Environment) compare(end time.Time) (*ledger.Verdict, error) {
	// read before the arrivals, because each call precedes its outcome
	outcomes, err := env.outcomes()
	if err != nil {
		return &ledger.Verdict{Skipped: make(map[timer.Reason]int)}, err
	}
	arrivals := env.rcv.Arrivals()
	led := env.traffic.buildLedger(end, arrivals)
	bad := env.traffic.addPolicyDuties(led, end, arrivals, outcomes)
	env.mu.Lock()
	e := ledger.Evidence{
		Arrivals:      arrivals,
		Interruptions: slices.Clone(env.interruptions),
		Clocks:        clockTolerance,
		Outcomes:      outcomes,
	}
	env.mu.Unlock()
	v := led.Check(e)
	env.explain(&v, e)
	if len(bad) > 0 {
		return &v, fmt.Errorf("%d faults of policies, first: %s", len(bad), bad[0])
	}
	return &v, nil
}

// explain logs what happened to the first fires that broke a promise: the timeline, the timer's
// status changes, the recorded attempts, and the rows that are left in the database.
func (env *Environment) explain(v *ledger.Verdict, e ledger.Evidence) {
	timelines := v.Timelines(e, func(f timer.FireID) (events []ledger.Event) {
		for _, c := range env.traffic.changesNear(f) {
			events = append(
				events,
				ledger.Event{At: c.sent, What: string(c.status) + " requested"},
				ledger.Event{At: c.done, What: string(c.status) + " confirmed"},
			)
		}
		for _, p := range env.c.Processes() {
			for _, l := range p.LinesWith(f.String()) {
				events = append(events, ledger.Event{At: l.At, What: p.Name + ": " + l.Text})
			}
		}
		kind := env.traffic.kinds()[f.Timer]
		events = append(events, ledger.Event{What: "timer of kind " + kind})
		for _, query := range []string{
			"SELECT * FROM fires WHERE timer_id = ? AND due_ms = ?",
			"SELECT * FROM attempts WHERE timer_id = ? AND due_ms = ?",
			"SELECT * FROM timers WHERE id = ? AND ? > 0",
		} {
			for _, row := range env.rows(query, f.Timer, f.DueMS) {
				events = append(events, ledger.Event{What: row})
			}
		}
		return events
	})
	if timelines != "" {
		env.printf("%s", timelines)
	}
}

// rows returns the rows of a query as text, each column with its name.
func (env *Environment) rows(query string, args ...any) (out []string) {
	const longest = 64 // of a column: no bodies
	rows, err := sqlx.NewDb(env.db, "mysql").QueryxContext(env.ctx, query, args...)
	if err != nil {
		return []string{err.Error()}
	}
	defer rows.Close()
	for rows.Next() {
		columns := make(map[string]any)
		if err := rows.MapScan(columns); err != nil {
			return append(out, err.Error())
		}
		var b strings.Builder
		b.WriteString("row")
		for _, name := range slices.Sorted(maps.Keys(columns)) {
			v := columns[name]
			if raw, ok := v.([]byte); ok {
				v = string(raw)
			}
			if text := fmt.Sprint(v); len(text) <= longest {
				fmt.Fprintf(&b, " %s=%s", name, text)
			}
		}
		out = append(out, b.String())
	}
	if err := rows.Err(); err != nil {
		out = append(out, err.Error())
	}
	return out
}

// outcomes reads every recorded outcome from the database.
func (env *Environment) outcomes() ([]ledger.Outcome, error) {
	rows, err := env.db.QueryContext(
		env.ctx,
		`SELECT o.timer_id, o.due_ms, o.series, o.until_ms, o.kind, o.reason, o.attempts, o.finished_ms
		FROM outcomes o JOIN apps a ON a.id = o.app_id WHERE a.name = ?`,
		app,
	)
	if err != nil {
		return nil, fmt.Errorf("reading the outcomes: %w", err)
	}
	defer rows.Close()
	var all []ledger.Outcome
	for rows.Next() {
		var o ledger.Outcome
		var finished int64
		err := rows.Scan(
			&o.Fire.Timer,
			&o.Fire.DueMS,
			&o.Fire.Series,
			&o.UntilMS,
			&o.Kind,
			&o.Reason,
			&o.Attempts,
			&finished,
		)
		if err != nil {
			return nil, fmt.Errorf("reading the outcomes: %w", err)
		}
		o.Finished = time.UnixMilli(finished)
		all = append(all, o)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("reading the outcomes: %w", err)
	}
	return all, nil
}

// buildLedger returns the duties of the load's fires, according to the API's confirmations.
func (t *traffic) buildLedger(end time.Time, arrivals receiver.Arrivals) *ledger.Ledger {
	t.mu.Lock()
	defer t.mu.Unlock()
	led := ledger.New()
	for _, s := range t.steady {
		d := ledger.Must
		if s.fails {
			d = ledger.Fail
		}
		led.AddEvery(s.id, time.Second, s.since.Add(clockTolerance), end, d)
	}
	called := make(map[timer.ID]time.Time)
	for i := range arrivals {
		called[arrivals[i].Fire.Timer] = time.UnixMilli(arrivals[i].Fire.DueMS)
	}
	for _, o := range t.oneShots {
		due := o.at
		// A one-shot that is activated after its instant is due at its activation, which precedes
		// the confirmation.
		if at, ok := called[o.id]; ok && o.done.After(o.at.Add(-clockTolerance)) &&
			at.After(o.at) &&
			at.Before(o.done.Add(clockTolerance)) {
			due = at
		}
		led.Add(o.id, due, ledger.Must)
	}
	for _, b := range t.bursts {
		led.AddEvery(b.id, time.Second, b.from, b.to, ledger.Must)
	}
	for _, f := range t.toggledTimers {
		f.addDuties(led, end)
	}
	return led
}

// addDuties adds the duties of a timer that is activated and deactivated. A fire that was due while
// the timer was active must be called, even if the timer becomes inactive meanwhile: each timer is
// active in the end. A fire that was due close to a change may be called or skipped.
func (f *toggledTimer) addDuties(led *ledger.Ledger, end time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for due := f.changes[0].done.Add(clockTolerance).Truncate(time.Second).Add(time.Second); due.Before(end); due = due.Add(time.Second) {
		// The last change that may have been in effect at the due instant, and the first that may
		// have followed it.
		i := sort.Search(
			len(f.changes),
			func(i int) bool { return f.changes[i].sent.Add(-clockTolerance).After(due) },
		) - 1
		c := f.changes[i]
		settled := !c.done.IsZero() && c.done.Add(clockTolerance).Before(due)
		switch {
		case c.status == timer.StatusActive && settled:
			led.Add(f.id, due, ledger.Must)
		case c.status != timer.StatusActive && settled && c.done.Add(changeDeadline).Before(due):
			led.Add(f.id, due, ledger.Not)
		default:
			led.Add(f.id, due, ledger.May)
		}
	}
}

// checkP5 returns the calls that started more than a second after the API confirmed the timer's
// deactivation.
func (t *traffic) checkP5(first receiver.Arrivals) (bad []string) {
	toggledTimers := make(map[timer.ID]*toggledTimer)
	for _, f := range t.toggledTimers {
		toggledTimers[f.id] = f
	}
	for _, a := range first {
		f := toggledTimers[a.Fire.Timer]
		if f == nil {
			continue
		}
		at := startTime(&a)
		for n, c := range f.changes {
			if c.status == timer.StatusActive || c.done.IsZero() ||
				!at.After(c.done.Add(changeDeadline+clockTolerance)) {
				continue
			}
			if n == len(f.changes)-1 || at.Before(f.changes[n+1].sent.Add(-clockTolerance)) {
				bad = append(
					bad,
					fmt.Sprintf(
						"P5: %s is called %s after its timer became inactive",
						a.Fire,
						at.Sub(c.done),
					),
				)
			}
		}
	}
	return bad
}

// withoutInactive leaves out calls whose timer may have been inactive since they were due: a fire
// that was not called before waits until its timer is active again.
func (t *traffic) withoutInactive(calls receiver.Arrivals) receiver.Arrivals {
	toggled := make(map[timer.ID]*toggledTimer)
	for _, f := range t.toggledTimers {
		toggled[f.id] = f
	}
	return slices.DeleteFunc(calls, func(a receiver.Arrival) bool {
		f := toggled[a.Fire.Timer]
		return f != nil && f.inactiveWithin(time.UnixMilli(a.Fire.DueMS), startTime(&a))
	})
}

// inactiveWithin reports whether the timer may have been inactive at an instant of a time.
func (f *toggledTimer) inactiveWithin(from, to time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, c := range f.changes {
		if c.status == timer.StatusActive || c.sent.Add(-clockTolerance).After(to) {
			continue
		}
		if i == len(f.changes)-1 {
			return true
		}
		again := f.changes[i+1].done // when it was active again
		if again.IsZero() || again.Add(clockTolerance).After(from) {
			return true
		}
	}
	return false
}

// excludedFromLateness returns the timers that may be late without a fault of the system: one-shots
// confirmed just before they were due, or after, and timers whose fires wait for each other.
func (t *traffic) excludedFromLateness() map[timer.ID]bool {
	out := make(map[timer.ID]bool)
	for _, p := range t.policyTimers {
		out[p.id] = p.kind == "queue"
	}
	for _, o := range t.oneShots {
		if o.done.After(o.at.Add(-giveUpBefore)) {
			out[o.id] = true
		}
	}
	return out
}

// buildResult makes a scenario's result from the verdict.
func (env *Environment) buildResult(s *Scenario, end time.Time, v *ledger.Verdict) *Result {
	first := firstCalls(env.rcv.Arrivals(), env.traffic.excludedFromLateness())
	bad := env.traffic.checkP5(first)
	first = env.traffic.withoutInactive(first)
	env.mu.Lock()
	defer env.mu.Unlock()
	slices.SortStableFunc(env.faults, func(a, b *Fault) int { return a.From.Compare(b.From) })
	if s.NoTargets {
		for _, f := range env.faults {
			f.Target = Target{}
		}
	}
	recoveries(env.faults, first, end, env.traffic.kinds())
	if err := errors.Join(env.writeTimeline(first), env.writeLatest(first)); err != nil {
		env.broken = append(env.broken, err.Error())
	}
	late := make([]time.Duration, len(first))
	for i := range first {
		late[i] = first[i].Lateness()
	}
	r := &Result{
		Scenario:  s.Name,
		About:     s.About,
		Due:       v.Due,
		Called:    v.Called,
		Delivered: v.Delivered,
		Failed:    v.Failed,
		Skipped:   v.Skipped,
		Missing: len(
			v.Missing,
		),
		Early:      len(v.Early),
		Duplicates: len(v.Duplicates),
		Excused:    v.Excused,
		Lateness:   receiver.QuantilesOf(late),
		Faults:     env.faults,
		Refused:    env.traffic.refused,
	}
	r.Broken = slices.Concat(env.broken, v.Faults())
	r.Broken = append(r.Broken, bad[:min(len(bad), 5)]...)
	if s.NoRepeats && v.Excused > 0 {
		r.Broken = append(
			r.Broken,
			fmt.Sprintf(
				"%d fires were called twice, and no fault of this scenario explains it",
				v.Excused,
			),
		)
	}
	if v.Due < minFires {
		r.Broken = append(r.Broken, fmt.Sprintf("only %d fires were checked", v.Due))
	}
	return r
}

// writeTimeline writes timeline.csv, to find the reason of lateness. Each line has a second of the
// run: the fires due in it, how many of them were not on time, the greatest lateness, and the calls
// that started in it.
func (env *Environment) writeTimeline(first receiver.Arrivals) error {
	type line struct {
		due, late, called int
		most              time.Duration
	}
	lines := make(map[int64]*line)
	at := func(t time.Time) *line {
		s := int64(t.Sub(env.began) / time.Second)
		if lines[s] == nil {
			lines[s] = &line{}
		}
		return lines[s]
	}
	for i := range first {
		l := at(time.UnixMilli(first[i].Fire.DueMS))
		l.due++
		l.most = max(l.most, first[i].Lateness())
		if first[i].Lateness() > onTimeLimit {
			l.late++
		}
		at(startTime(&first[i])).called++
	}
	var b bytes.Buffer
	b.WriteString("second,due,late,most_ms,called\n")
	for _, s := range slices.Sorted(maps.Keys(lines)) {
		l := lines[s]
		fmt.Fprintf(&b, "%d,%d,%d,%d,%d\n", s, l.due, l.late, l.most.Milliseconds(), l.called)
	}
	if err := os.WriteFile(filepath.Join(env.dir, "timeline.csv"), b.Bytes(), 0o600); err != nil {
		return fmt.Errorf("writing the timeline: %w", err)
	}
	return nil
}

// latestCalls is how many lines latest.csv has.
const latestCalls = 100

// writeLatest writes latest.csv, the calls that were latest, with what brought their fires to the
// executor and what they waited for: see Hops in package timer. Times are since the run began.
func (env *Environment) writeLatest(first receiver.Arrivals) error {
	byLateness := slices.SortedFunc(slices.Values(first), func(a, b receiver.Arrival) int {
		return cmp.Compare(b.Lateness(), a.Lateness())
	})
	kinds := env.traffic.kinds()
	var b bytes.Buffer
	b.WriteString("timer,kind,due_ms,late_ms,attempts,path,task_age_ms,held_ms," +
		"waited_for,waited_ms\n")
	for i := range byLateness[:min(len(byLateness), latestCalls)] {
		a := &byLateness[i]
		var attempts, age, held, waited int64
		var path timer.Path
		var waitedFor timer.Wait
		err := env.db.QueryRowContext(
			env.ctx,
			`SELECT attempts, path, task_age_ms, held_ms, waited_for, waited_ms FROM outcomes
			WHERE timer_id = ? AND due_ms = ? ORDER BY finished_ms LIMIT 1`,
			a.Fire.Timer, a.Fire.DueMS,
		).Scan(&attempts, &path, &age, &held, &waitedFor, &waited)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return fmt.Errorf("reading an outcome: %w", err)
		}
		fmt.Fprintf(&b, "%d,%s,%d,%d,%d,%s,%d,%d,%s,%d\n", a.Fire.Timer, kinds[a.Fire.Timer],
			a.Fire.DueMS-env.began.UnixMilli(), a.Lateness().Milliseconds(), attempts,
			path, age, held, waitedFor, waited)
	}
	if err := os.WriteFile(filepath.Join(env.dir, "latest.csv"), b.Bytes(), 0o600); err != nil {
		return fmt.Errorf("writing the latest calls: %w", err)
	}
	return nil
}
