package chaos

import (
	"fmt"
	"time"
)

// onTimeLimit is what counts as on time in a recovery.
const onTimeLimit = 500 * time.Millisecond

// Target is what a fault's recovery is compared with; 0 is none. No target decides over success.
type Target struct {
	OnTimeAfter   time.Duration // until fires that come due are on time again, 99 of 100 in each second
	CaughtUpAfter time.Duration // until the last late fire is called
	// Catch, for an outage of length T: All is T/5.
	ScaledToOutage bool
}

// Targets of the recoveries.
var (
	killTarget   = Target{OnTimeAfter: 3 * time.Second, CaughtUpAfter: 3 * time.Second}
	freezeTarget = Target{OnTimeAfter: 6 * time.Second, CaughtUpAfter: 6 * time.Second}
	brokerTarget = Target{OnTimeAfter: 5 * time.Second, ScaledToOutage: true}
	flushTarget  = Target{OnTimeAfter: 5 * time.Second, CaughtUpAfter: 5 * time.Second}
	outageTarget = Target{OnTimeAfter: 5 * time.Second, ScaledToOutage: true}
	linkTarget   = Target{OnTimeAfter: 5 * time.Second}
	// An open breaker asks after 5 s, and 10 s later again: of an endpoint that was away for 10 s
	// it finds out some 6 s after.
	endpointTarget = Target{OnTimeAfter: 10 * time.Second}
	noTarget       = Target{}
)

// Fault is something that befell the system.
type Fault struct {
	Name  string    `json:"name"`
	Proof string    `json:"proof"` // that it happened
	From  time.Time `json:"from"`
	// Until is the end of an outage, from which its recovery counts; zero for what happens in a
	// moment.
	Until  time.Time `json:"until,omitzero"`
	Target Target    `json:"-"`

	Recovery
}

// Recovery is what became of fires after a fault.
type Recovery struct {
	Late int `json:"late"` // first calls after it that were not on time
	// of them, by what the load calls their timers.
	Kinds   map[string]int `json:"kinds,omitempty"`
	MaxLate time.Duration  `json:"max_late"` // the latest of them
	// until fires that came due were on time again.
	OnTimeAfter    time.Duration `json:"present"`
	CaughtUpAfter  time.Duration `json:"all"`        // until the last late one was called
	TargetCaughtUp time.Duration `json:"target_all"` // 0: none
	TargetOnTime   time.Duration `json:"target_now"`
	TargetsMet     bool          `json:"targets_met"`
}

// recoveryStart is the instant from which recovery counts.
func (f *Fault) recoveryStart() time.Time {
	if f.Until.IsZero() {
		return f.From
	}
	return f.Until
}

// outageLength is how long it lasted; 0 for a moment.
func (f *Fault) outageLength() time.Duration {
	if f.Until.IsZero() {
		return 0
	}
	return f.Until.Sub(f.From)
}

// inject makes a fault happen and keeps it. do returns the proof; without one the scenario has
// failed. do of an outage ends with f.over.
func (env *Environment) inject(
	name string,
	t Target,
	do func(f *Fault) (proof string, err error),
) error {
	f := &Fault{Name: name, Target: t, From: time.Now()}
	env.mu.Lock()
	env.faults = append(env.faults, f)
	env.mu.Unlock()
	env.printf("%s", name)
	proof, err := do(f)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if proof == "" {
		return fmt.Errorf("%s: nothing proves that it happened", name)
	}
	f.Proof = proof
	env.printf("  %s", proof)
	return nil
}

// markEnd marks the end of an outage.
func (f *Fault) markEnd() { f.Until = time.Now() }
