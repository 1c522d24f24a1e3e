package chaos

import (
	"context"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/carillon-timer/carillon/e2e/client"
	"github.com/carillon-timer/carillon/e2e/cluster"
	"github.com/carillon-timer/carillon/e2e/ledger"
	"github.com/carillon-timer/carillon/e2e/receiver"
	"github.com/carillon-timer/carillon/libs/clock"
	"github.com/carillon-timer/carillon/libs/timer"
)

const (
	// policyGrace is the misfire grace of this scenario's timers.
	policyGrace = 5 * time.Second
	// decisionTime is how long before its call an executor on a busy machine may have decided about
	// a fire.
	decisionTime = 500 * time.Millisecond
	// slowAnswer is longer than the second between fires that run one at a time.
	slowAnswer      = 1500 * time.Millisecond
	timersPerPolicy = 10 // timers of each kind
	editEvery       = 5 * time.Second
)

// policyTimer is a timer of the policies scenario: a cron of each second, or a fixed delay.
type policyTimer struct {
	kind  string // once, skip, serial, queue, chain, edited
	id    timer.ID
	since time.Time
}

// policies injects faults into schedulers, migrators, executors and the database. Its timers have
// policies that skip or wait, and definitions that change.
func policies(env *Environment) error {
	eg, ctx := errgroup.WithContext(env.ctx)
	for _, k := range []struct {
		kind string
		n    client.NewTimer
	}{
		{"once", client.NewTimer{Target: client.Post(env.endpoint(0) + "/ok"), Misfire: &client.Misfire{Policy: "fire_once", Grace: policyGrace.String()}}},
		{"skip", client.NewTimer{Target: client.Post(env.endpoint(0) + "/ok"), Misfire: &client.Misfire{Policy: "skip", Grace: policyGrace.String()}}},
		{"serial", client.NewTimer{Target: client.Post(env.endpoint(0) + "/slow"), Misfire: fireAll, Concurrency: &client.Concurrency{Policy: "skip"}}},
		{"queue", client.NewTimer{Target: client.Post(env.endpoint(0) + "/slow"), Misfire: fireAll, Concurrency: &client.Concurrency{Policy: "queue_all", MaxQueue: 5}}},
		{"chain", client.NewTimer{Schedule: client.FixedDelay(2 * time.Second), Target: client.Post(env.endpoint(0) + "/ok")}},
		{"edited", client.NewTimer{Target: client.Post(env.endpoint(0) + "/ok"), Misfire: fireAll}},
	} {
		for i := range timersPerPolicy {
			eg.Go(func() error {
				n := k.n
				n.App, n.Name, n.Status = app, fmt.Sprintf("policy-%s-%d", k.kind, i), "active"
				if n.Schedule.Kind == "" {
					n.Schedule = client.Cron("* * * * * *")
				}
				tm, _, err := env.api.Create(ctx, n)
				env.traffic.mu.Lock()
				defer env.traffic.mu.Unlock()
				env.traffic.policyTimers = append(
					env.traffic.policyTimers,
					policyTimer{kind: k.kind, id: tm.TimerID(), since: time.Now()},
				)
				return err
			})
		}
	}
	if err := eg.Wait(); err != nil {
		return fmt.Errorf("creating timers with policies: %w", err)
	}
	editing, stop := context.WithCancel(env.ctx)
	defer stop()
	for _, p := range env.traffic.policyTimers {
		if p.kind == "edited" {
			env.traffic.work.Go(func() { env.editRepeatedly(editing, p.id) })
		}
	}
	err := inSequence(
		env,
		downFor(
			cluster.Scheduler,
			30*time.Second,
		),
		killOne(cluster.Executor, recoveryWait),
		downFor(cluster.Migrator, 30*time.Second),
		freezeOne(
			cluster.Executor,
			20*time.Second,
		),
		killOne(cluster.Migrator, recoveryWait),
		mysqlOutage(10*time.Second),
	)
	stop()
	return err
}

// editRepeatedly alternates a timer's schedule between even seconds and all seconds until ctx ends.
// Both have the even seconds, so none of them may be missing.
func (env *Environment) editRepeatedly(ctx context.Context, id timer.ID) {
	specs := []string{"*/2 * * * * *", "* * * * * *"}
	for n := 0; ctx.Err() == nil; {
		to := client.Cron(specs[n%2])
		call, cancel := context.WithTimeout(env.ctx, callTimeout)
		_, err := env.api.Edit(call, app, id, client.Change{Schedule: &to})
		cancel()
		if err == nil {
			n++
			clock.Pause(ctx, editEvery)
			continue
		}
		env.traffic.countRefusal(err)
		clock.Pause(ctx, time.Second)
	}
}

// addPolicyDuties adds the duties of timers with policies, and returns the policies' faults. A skip
// by policy owes no call. This function checks that the skip was right.
func (t *traffic) addPolicyDuties(
	led *ledger.Ledger,
	end time.Time,
	arrivals receiver.Arrivals,
	outcomes []ledger.Outcome,
) (bad []string) {
	of := make(map[timer.ID]map[int64]*ledger.Outcome)
	for i := range outcomes {
		o := &outcomes[i]
		if of[o.Fire.Timer] == nil {
			of[o.Fire.Timer] = make(map[int64]*ledger.Outcome)
		}
		for due := o.Fire.DueMS; due <= max(o.Fire.DueMS, o.UntilMS); due += time.Second.Milliseconds() {
			of[o.Fire.Timer][due] = o
		}
	}
	calls := make(map[timer.ID]receiver.Arrivals)
	for i := range arrivals {
		id := arrivals[i].Fire.Timer
		calls[id] = append(calls[id], arrivals[i])
	}
	for _, p := range t.policyTimers {
		if p.kind == "chain" {
			bad = append(bad, checkFixedDelay(led, &p, end, of[p.id])...)
			continue
		}
		for due := p.since.Add(clockTolerance).Truncate(time.Second).Add(time.Second); due.Before(end); due = due.Add(time.Second) {
			duty, wrong := p.dutyOf(due, of[p.id][due.UnixMilli()])
			led.Add(p.id, due, duty)
			if wrong != "" {
				bad = append(bad, wrong)
			}
		}
		bad = append(bad, p.checkCalls(calls[p.id])...)
	}
	return bad
}

// dutyOf returns the duty of one instant of a timer, and the fault of its outcome.
func (p *policyTimer) dutyOf(due time.Time, o *ledger.Outcome) (duty ledger.Duty, wrong string) {
	if o == nil || o.Kind != timer.Skipped {
		if p.kind == "edited" && due.Unix()%2 != 0 {
			// it depends on the time of the edits which version has this instant
			return ledger.May, ""
		}
		return ledger.Must, ""
	}
	late := o.Finished.Sub(due)
	switch {
	case p.kind == "edited" && due.Unix()%2 != 0 && o.Reason == timer.ReasonSuperseded:
		return ledger.Not, ""
	case (p.kind == "once" || p.kind == "skip") && o.Reason == timer.ReasonMisfired && late >= policyGrace-clockTolerance,
		p.kind == "serial" && o.Reason == timer.ReasonOverlap,
		p.kind == "queue" && o.Reason == timer.ReasonQueueFull:
		return ledger.Not, ""
	}
	return ledger.Must, fmt.Sprintf(
		"policy %s: %s is skipped as %s, %s late",
		p.kind,
		o.Fire,
		o.Reason,
		late,
	)
}

// checkCalls checks the calls of one timer.
func (p *policyTimer) checkCalls(all receiver.Arrivals) (bad []string) {
	all = slices.Clone(all)
	slices.SortFunc(
		all,
		func(a, b receiver.Arrival) int { return a.Arrived().Compare(b.Arrived()) },
	)
	var covered time.Time // the instants that the latest catch-up covers end here
	busy := make(map[timer.FireID]time.Time)
	for i := range all {
		a := &all[i]
		first := a.Attempt == 1
		switch p.kind {
		case "skip":
			if first && a.Lateness() > policyGrace+decisionTime {
				bad = append(
					bad,
					fmt.Sprintf("policy skip: %s is called, %s late", a.Fire, a.Lateness()),
				)
			}
		case "once":
			if !first || a.Lateness() <= policyGrace+decisionTime {
				continue
			}
			if due := time.UnixMilli(a.Fire.DueMS); due.Before(covered.Add(-decisionTime)) {
				bad = append(
					bad,
					fmt.Sprintf(
						"policy fire_once: %s catches up, and an earlier call covered all until %s",
						a.Fire,
						covered,
					),
				)
			}
			covered = startTime(a).Add(-policyGrace)
		case "serial", "queue":
			for fire, until := range busy {
				if fire != a.Fire && a.Arrived().Before(until.Add(-clockTolerance)) {
					bad = append(
						bad,
						fmt.Sprintf(
							"concurrency: %s is called while %s is in flight",
							a.Fire,
							fire,
						),
					)
				}
			}
			busy[a.Fire] = a.Arrived().Add(slowAnswer)
		}
	}
	return bad
}

// checkFixedDelay checks that each fire of a fixed delay is due its delay after the end of the
// previous one.
func checkFixedDelay(
	led *ledger.Ledger,
	p *policyTimer,
	end time.Time,
	of map[int64]*ledger.Outcome,
) (bad []string) {
	var dues []int64
	for due := range of {
		dues = append(dues, due)
	}
	slices.Sort(dues)
	last := p.since
	for i, due := range dues {
		led.Add(p.id, time.UnixMilli(due), ledger.Must)
		o := of[due]
		if i > 0 && due != last.Add(2*time.Second).UnixMilli() {
			bad = append(
				bad,
				fmt.Sprintf(
					"fixed delay: %s is due %s after the end of the previous one",
					o.Fire,
					time.UnixMilli(due).Sub(last),
				),
			)
		}
		last = o.Finished
	}
	if end.Sub(last) > settleTimeout {
		bad = append(bad, fmt.Sprintf("fixed delay: timer %s has had no fire since %s", p.id, last))
	}
	return bad
}
