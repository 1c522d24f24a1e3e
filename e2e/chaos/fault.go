package chaos

import (
	"fmt"
	"time"
)

// onTimeLimit is the greatest lateness that counts as on time in a recovery.
const onTimeLimit = 500 * time.Millisecond

// Target is the recovery time to compare with; 0 is no target. A missed target is shown, and fails
// nothing.
type Target struct {
	OnTimeAfter   time.Duration // until new fires are on time again, 99 of 100 in each second
	CaughtUpAfter time.Duration // until the last late fire is called
	// ScaledToOutage sets CaughtUpAfter to a fifth of the outage's length.
	ScaledToOutage bool
}

// Recovery targets of the faults.
var (
	killTarget   = Target{OnTimeAfter: 3 * time.Second, CaughtUpAfter: 3 * time.Second}
	freezeTarget = Target{OnTimeAfter: 6 * time.Second, CaughtUpAfter: 6 * time.Second}
	brokerTarget = Target{OnTimeAfter: 5 * time.Second, ScaledToOutage: true}
	flushTarget  = Target{OnTimeAfter: 5 * time.Second, CaughtUpAfter: 5 * time.Second}
	outageTarget = Target{OnTimeAfter: 5 * time.Second, ScaledToOutage: true}
	linkTarget   = Target{OnTimeAfter: 5 * time.Second}
	// An open breaker probes after 5 s, and again 10 s later. After an outage of 10 s it finds the
	// endpoint some 6 s later.
	endpointTarget = Target{OnTimeAfter: 10 * time.Second}
	noTarget       = Target{}
	// Executors find due fires in the store without Pulsar, so the loss of a broker delays nothing.
	unnoticedTarget = Target{OnTimeAfter: time.Millisecond, CaughtUpAfter: time.Millisecond}
	nodeTarget      = Target{OnTimeAfter: 5 * time.Second, CaughtUpAfter: 5 * time.Second}
	quorumTarget    = Target{OnTimeAfter: 5 * time.Second, ScaledToOutage: true}
)

// Fault is a fault that was injected.
type Fault struct {
	Name  string    `json:"name"`
	Proof string    `json:"proof"` // evidence that the fault happened
	From  time.Time `json:"from"`
	// Until is the end of an outage, at which its recovery starts; zero for an instantaneous fault.
	Until  time.Time `json:"until,omitzero"`
	Target Target    `json:"-"`

	Recovery
}

// Recovery measures the fires after a fault.
type Recovery struct {
	Late int `json:"late"` // first calls after the fault that were not on time
	// late calls by the kind of their timer
	Kinds   map[string]int `json:"kinds,omitempty"`
	MaxLate time.Duration  `json:"max_late"` // the greatest lateness
	// until new fires were on time again
	OnTimeAfter    time.Duration `json:"present"`
	CaughtUpAfter  time.Duration `json:"all"`        // until the last late fire was called
	TargetCaughtUp time.Duration `json:"target_all"` // 0: none
	TargetOnTime   time.Duration `json:"target_now"`
	TargetsMet     bool          `json:"targets_met"`
}

// recoveryStart returns the instant at which the recovery starts.
func (f *Fault) recoveryStart() time.Time {
	if f.Until.IsZero() {
		return f.From
	}
	return f.Until
}

// outageLength returns the length of an outage, or 0 for an instantaneous fault.
func (f *Fault) outageLength() time.Duration {
	if f.Until.IsZero() {
		return 0
	}
	return f.Until.Sub(f.From)
}

// inject runs do, which injects a fault and returns a proof that it happened, and records the
// fault. It fails without a proof. For an outage, do calls f.markEnd at its end.
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
		return fmt.Errorf("%s: no proof that it happened", name)
	}
	f.Proof = proof
	env.printf("  %s", proof)
	return nil
}

// markEnd records the end of an outage.
func (f *Fault) markEnd() { f.Until = time.Now() }
