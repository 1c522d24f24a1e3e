package timer

import "strconv"

// TargetOutcome is the result of one of several targets that must all accept a fire.
type TargetOutcome struct {
	Index int // in Targets
	// Kind is Delivered if the target accepted the fire. Otherwise it is the kind of the fire,
	// empty while the fire is open.
	Kind       OutcomeKind
	Attempts   int32   // calls of this target
	StatusCode int32   // of the last call; 0 if there was no response
	Failure    Failure // of the last call
}

// TargetName returns the name of target i: its Name, or its position from 1. Attempts carry this
// name.
func (f *Fanout) TargetName(i int) string {
	if name := f.Targets[i].Name; name != "" {
		return name
	}
	return strconv.Itoa(i + 1)
}

// Outcomes derives the result of each target from the attempts of a fire, in order. kind is the
// outcome of the fire, empty while it is open. It returns nil unless all targets must accept the
// fire.
func (f *Fanout) Outcomes(kind OutcomeKind, attempts []Attempt) []TargetOutcome {
	if f.Mode != ModeAll {
		return nil
	}
	out := make([]TargetOutcome, len(f.Targets))
	for i := range out {
		t, name := &out[i], f.TargetName(i)
		t.Index, t.Kind = i, kind
		for j := range attempts {
			a := &attempts[j]
			if a.Target != name {
				continue
			}
			t.Attempts++
			t.StatusCode, t.Failure = a.StatusCode, a.Failure
			if a.Failure == FailureNone {
				t.Kind = Delivered
			}
		}
	}
	return out
}
