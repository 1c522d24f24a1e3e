package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/carillon-timer/carillon/e2e/client"
	"github.com/carillon-timer/carillon/libs/timer"
)

// app is the app of all timers.
const app = "app"

// timerPlan is one timer of a run's load: its definition, and the requests for it.
type timerPlan struct {
	name     string
	step     time.Duration // of a cron; 0: a one-shot
	every    bool          // the cron counts from its creation, not by the clock
	at       time.Duration // due instant, since the start
	delay    time.Duration // from activation to due instant, instead of at
	endpoint endpoint
	attempts int
	wait     time.Duration // between attempts, doubled each time
	timeout  time.Duration // of an attempt
	fails    bool          // all its attempts fail

	misfire     string        // policy; empty is the kind's default
	grace       time.Duration // of the misfire policy; 0 is the default
	concurrency string        // policy; empty is allow
	interval    bool          // every is an interval schedule, not @every
	fixed       bool          // a fixed delay of step
	edits       []edit        // of a cron by the clock

	create time.Duration   // since the start
	flips  []time.Duration // deactivations and activations in turn
	// One per deactivation: 0 makes the timer inactive, -1 pauses it without an end. Another number
	// is the length of the pause as a share of the time to the next flip.
	pauses     []float64
	end        time.Duration   // no fire is due from then on
	remove     time.Duration   // deletion; 0: never
	rivalFlips []time.Duration // when another client activates and deactivates the timer in turn
}

// edit changes a cron's step.
type edit struct {
	at   time.Duration
	step time.Duration
}

func (o *timerPlan) request(start time.Time) client.NewTimer {
	s := o.schedule(start, o.step)
	n := client.NewTimer{
		App:      app,
		Name:     o.name,
		Schedule: s,
		Target:   client.Post(o.endpoint.url()),
		Status:   "active",
		Retry: &client.Retry{
			Attempts: o.attempts,
			Wait:     o.wait.String(),
			Factor:   2,
			Timeout:  o.timeout.String(),
		},
	}
	if o.endpoint.completeAfter > 0 {
		n.Target.Async = acceptedFor.String()
	}
	if o.misfire != "" {
		n.Misfire = &client.Misfire{Policy: o.misfire}
		if o.misfire == string(timer.MisfireFireAll) {
			n.Misfire.MaxFires = timer.MaxMisfireFires
		}
		if o.grace > 0 {
			n.Misfire.Grace = o.grace.String()
		}
	}
	if o.concurrency != "" {
		n.Concurrency = &client.Concurrency{Policy: o.concurrency}
	}
	return n
}

// schedule returns the plan's schedule with the given step.
func (o *timerPlan) schedule(start time.Time, step time.Duration) client.Schedule {
	var s client.Schedule
	switch {
	case o.fixed:
		s = client.FixedDelay(step)
	case o.every && o.interval:
		s = client.Every(step)
	case o.every:
		s = client.Cron("@every " + step.String())
	case o.step > 0:
		s = client.Cron(cronOf(step))
	case o.delay > 0:
		return client.Delay(o.delay)
	default:
		return client.At(start.Add(o.at))
	}
	s.EndAt = start.Add(o.end).UTC().Format(time.RFC3339Nano)
	return s
}

// draftPauses turns some deactivations into pauses, with and without an end, and pauses one-shots
// around their instant. It has its own random source, so that other draws of a seed stay the same
// as without pauses.
func draftPauses(r *rand.Rand, all []timerPlan) {
	for i := range all {
		o := &all[i]
		if o.step == 0 && len(o.flips) == 0 && o.remove == 0 && o.delay == 0 && r.IntN(3) == 0 {
			from := max(o.create, o.at-between(r, 0, 4*time.Second))
			o.flips = []time.Duration{from, max(from, o.at) + between(r, 0, time.Minute)}
		}
		for range (len(o.flips) + 1) / 2 { //nolint:mnd // every other one
			//nolint:mnd // of them
			o.pauses = append(o.pauses, []float64{0, 0, -1, 0.5, 1, 2}[r.IntN(6)])
		}
	}
}

// draftPolicies draws policies. Policies that skip are rarer than the one that must call every
// fire.
func (o *timerPlan) draftPolicies(r *rand.Rand, i int, end time.Duration) {
	o.misfire = string(timer.MisfireFireAll)
	if o.interval = i%2 == 0; i%3 > 0 {
		o.grace = 2 * time.Second
	}
	kinds := 12
	if o.endpoint.completeAfter > 0 {
		kinds = 3 // a waiting fire must not depend on the slow completion of another
	}
	switch r.IntN(kinds) {
	case 0:
		o.misfire, o.grace = "", 0 // fire_once
	case 1:
		o.misfire, o.grace = string(
			timer.MisfireFireOnce,
		), between(
			r,
			5*time.Second,
			20*time.Second,
		).Truncate(time.Millisecond)
	case 2:
		o.misfire, o.grace = string(
			timer.MisfireSkip,
		), between(
			r,
			5*time.Second,
			20*time.Second,
		).Truncate(time.Millisecond)
	case 3:
		o.concurrency = string(timer.ConcurrencySkip)
	case 4:
		o.concurrency = string(timer.ConcurrencyQueueOne)
	case 5:
		o.concurrency = string(timer.ConcurrencyQueueAll)
	case 6:
		o.concurrency = string(timer.ConcurrencyCancelPrevious)
	case 7:
		o.fixed, o.every = true, false
		return
	}
	if !o.every && r.IntN(3) == 0 {
		for range 1 + r.IntN(2) {
			o.edits = append(
				o.edits,
				edit{between(r, o.create, end), editSteps[r.IntN(len(editSteps))]},
			)
		}
		slices.SortFunc(o.edits, func(a, b edit) int { return int(a.at - b.at) })
	}
}

// editSteps are the steps that crons are edited to. Some share many instants with the previous
// step, some hardly any.
var editSteps = []time.Duration{
	time.Second,
	2 * time.Second,
	5 * time.Second,
	12 * time.Second,
	20 * time.Second,
	30 * time.Second,
	time.Minute,
	3 * time.Minute,
}

// cronOf returns the expression for a step that divides a minute or an hour.
func cronOf(step time.Duration) string {
	if step < time.Minute {
		return fmt.Sprintf("*/%d * * * * *", int(step.Seconds()))
	}
	return fmt.Sprintf("0 */%d * * * *", int(step.Minutes()))
}

// draftLoad draws a load for a length of time, which alone decides its size.
func draftLoad(r *rand.Rand, length time.Duration) []timerPlan {
	return append(draftOnces(r, length), draftCrons(r, length)...)
}

func between(r *rand.Rand, from, to time.Duration) time.Duration {
	return from + time.Duration(r.Int64N(int64(to-from)))
}

// inMS draws full milliseconds, which an endpoint's URL can express.
func inMS(r *rand.Rand, from, to time.Duration) time.Duration {
	return between(r, from, to).Truncate(time.Millisecond)
}

// draftEndpoint draws the behaviour of a plan's receiver, and its retries.
func (o *timerPlan) draftEndpoint(r *rand.Rand) {
	o.attempts, o.wait, o.timeout = 3, time.Second, 2*time.Second
	o.endpoint.takes = inMS(r, time.Millisecond, 60*time.Millisecond)
	switch n := r.IntN(100); {
	case n < 48:
	case n < 55:
		o.endpoint.completeAfter = inMS(r, time.Second, 40*time.Second)
	case n < 70:
		o.endpoint.fails = 2
	case n < 80: // retries that release the fire
		o.endpoint.fails, o.wait = 2, between(r, 5*time.Second, 12*time.Second)
	case n < 90:
		o.endpoint.takes = inMS(r, 500*time.Millisecond, 1900*time.Millisecond)
	case n < 95:
		o.endpoint.fails, o.fails = 9, true
	default: // never answers in time
		o.endpoint.takes, o.timeout, o.attempts, o.fails = 3*time.Second, 1500*time.Millisecond, 2, true
	}
}

// draftOnces draws one-shots: far ahead, near, and some at the same instant.
func draftOnces(r *rand.Rand, length time.Duration) (all []timerPlan) {
	burst := between(r, length/4, length*3/4).Truncate(time.Second)
	for i := range int(length.Minutes()) {
		o := timerPlan{name: fmt.Sprintf("once-%d", i)}
		o.draftEndpoint(r)
		o.create = between(r, 0, length*9/10)
		switch r.IntN(5) {
		case 4:
			o.delay = between(
				r,
				time.Millisecond,
				length-o.create,
			).Truncate(time.Millisecond) +
				time.Millisecond
		case 0:
			o.at = o.create + between(r, time.Millisecond, 8*time.Second)
		case 1:
			o.create, o.at = between(r, 0, burst), burst
		default:
			o.at = between(r, o.create, length)
		}
		if r.IntN(8) == 0 {
			o.remove = between(r, o.create, length)
		} else if r.IntN(8) == 0 {
			o.flips = []time.Duration{between(r, o.create, length)}
		}
		all = append(all, o)
	}
	return all
}

// steps are the steps of the crons.
var steps = []time.Duration{
	time.Second,
	time.Second,
	5 * time.Second,
	10 * time.Second,
	15 * time.Second,
	20 * time.Second,
	30 * time.Second,
	30 * time.Second,
	time.Minute,
	time.Minute,
	2 * time.Minute,
	5 * time.Minute,
	7 * time.Second,
	41 * time.Second,
}

// draftCrons draws one cron of each step per two hours. Frequent ones run for a short time, rare
// ones for long, and each is deactivated and activated again.
func draftCrons(r *rand.Rand, length time.Duration) (all []timerPlan) {
	stretches := max(1, length/(2*time.Hour)) //nolint:mnd // as said
	stretch := length / stretches
	for i := range len(steps) * int(stretches) {
		step, begin := steps[i%len(steps)], stretch*time.Duration(i/len(steps))
		o := timerPlan{name: fmt.Sprintf("cron-%d", i), step: step, every: time.Hour%step != 0}
		o.draftEndpoint(r)
		span := min(stretch*9/10, 150*step)
		o.create = begin + between(r, 0, stretch-span)
		end := o.create + span
		o.end = length
		at := o.create
		for range r.IntN(4) {
			if at = between(r, at, end); end-at < time.Second {
				break
			}
			o.flips = append(o.flips, at)
		}
		o.draftPolicies(r, i, end)
		if end < length*9/10 {
			if len(o.flips)%2 == 1 {
				o.flips = o.flips[:len(o.flips)-1]
			}
			if o.end = end.Truncate(time.Millisecond); r.IntN(2) == 0 {
				o.remove = end
			}
		}
		if o.remove == 0 && r.IntN(4) == 0 {
			for range 1 + r.IntN(6) {
				o.rivalFlips = append(o.rivalFlips, between(r, o.create, end))
			}
			slices.Sort(o.rivalFlips)
		}
		all = append(all, o)
	}
	return all
}
