package callback

import (
	"errors"
	"slices"

	"github.com/carillon-timer/carillon/libs/timer"
)

// faults collects the errors of a definition, the first of each field.
type faults struct{ list []*timer.Error }

// invalid adds an error.
func (e *faults) invalid(field, msg string) { e.add(timer.Invalid(field, msg)) }

// add adds an error, if it is not nil.
func (e *faults) add(err error) {
	if f, ok := errors.AsType[*timer.Error](err); ok && !e.has(f.Field) {
		e.list = append(e.list, f)
	}
}

// has returns whether a field has an error.
func (e *faults) has(field string) bool {
	return slices.ContainsFunc(e.list, func(f *timer.Error) bool { return f.Field == field })
}

// first returns the first error, or nil.
func (e *faults) first() error {
	if len(e.list) == 0 {
		return nil
	}
	return e.list[0]
}
