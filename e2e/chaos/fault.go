package chaos

import (
	"fmt"
	"time"
)

// onTime is what counts as on time in a recovery.
const onTime = 500 * time.Millisecond

// Target is what a fault's recovery is compared with; 0 is none. No target decides over success.
type Target struct {
	Present time.Duration // until fires that come due are on time again, 99 of 100 in each second
	All     time.Duration // until the last late fire is called
	// Catch, for an outage of length T: All is T/5.
	Catch bool
}

// Targets of the recoveries.
var (
	killed      = Target{Present: 3 * time.Second, All: 3 * time.Second}
	frozen      = Target{Present: 6 * time.Second, All: 6 * time.Second}
	brokerBack  = Target{Present: 5 * time.Second, Catch: true}
	redisWiped  = Target{Present: 5 * time.Second, All: 5 * time.Second}
	outageEnded = Target{Present: 5 * time.Second, Catch: true}
	wayBack     = Target{Present: 5 * time.Second}
	// An open breaker asks after 5 s, and 10 s later again: of an endpoint that was away for 10 s
	// it finds out some 6 s after.
	endpointBack = Target{Present: 10 * time.Second}
	none         = Target{}
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
	Present    time.Duration `json:"present"`
	All        time.Duration `json:"all"`        // until the last late one was called
	TargetAll  time.Duration `json:"target_all"` // 0: none
	TargetNow  time.Duration `json:"target_now"`
	TargetsMet bool          `json:"targets_met"`
}

// base is the instant from which recovery counts.
func (f *Fault) base() time.Time {
	if f.Until.IsZero() {
		return f.From
	}
	return f.Until
}

// outage is how long it lasted; 0 for a moment.
func (f *Fault) outage() time.Duration {
	if f.Until.IsZero() {
		return 0
	}
	return f.Until.Sub(f.From)
}

// befall makes a fault happen and keeps it. do returns the proof; without one the scenario has
// failed. do of an outage ends with f.over.
func (w *Environment) befall(
	name string,
	t Target,
	do func(f *Fault) (proof string, err error),
) error {
	f := &Fault{Name: name, Target: t, From: time.Now()}
	w.mu.Lock()
	w.faults = append(w.faults, f)
	w.mu.Unlock()
	w.printf("%s", name)
	proof, err := do(f)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if proof == "" {
		return fmt.Errorf("%s: nothing proves that it happened", name)
	}
	f.Proof = proof
	w.printf("  %s", proof)
	return nil
}

// over marks the end of an outage.
func (f *Fault) over() { f.Until = time.Now() }
