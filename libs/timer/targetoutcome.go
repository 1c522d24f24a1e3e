package timer

import "strconv"

// TargetOutcome is what became of one of several targets that all shall take a fire.
type TargetOutcome struct {
	Index int // in Targets
	// Kind: Delivered where it took the fire, else as the fire: empty while that is open.
	Kind       OutcomeKind
	Attempts   int32   // calls of it
	StatusCode int32   // of its last call; 0 where no answer came
	Failure    Failure // of its last call
}

// TargetName returns what tells target i apart from the others of its timer: its name, or its place
// from 1. Attempts carry it.
func (f *Fanout) TargetName(i int) string {
	if name := f.Targets[i].Name; name != "" {
		return name
	}
	return strconv.Itoa(i + 1)
}

// Outcomes tells by the attempts of a fire, in their order, what became of each target; kind is the
// outcome of the fire, empty while it is open. It is nothing where not all shall take it: then
// whichever took it is the outcome.
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
