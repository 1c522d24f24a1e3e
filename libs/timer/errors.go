package timer

import (
	"errors"
	"fmt"
)

// Code says what kind of error it is, for the edge that turns it into a status.
type Code string

// The codes. Everything without one is CodeInternal.
const (
	CodeInvalid  Code = "invalid"
	CodeNotFound Code = "not_found"
	CodeConflict Code = "conflict"
	// CodeUnavailable: a server is away or slow: the same call may succeed later.
	CodeUnavailable Code = "unavailable"
	CodeInternal    Code = "internal"
)

// Error is an error that a user can act on.
type Error struct {
	Code  Code
	Field string // the field at fault, dotted ("schedule.specs[0]"); empty where none is
	Msg   string
	Err   error // the cause, for logs; may be nil
}

func (e *Error) Error() string {
	s := e.Msg
	if e.Field != "" {
		s = e.Field + ": " + s
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

func (e *Error) Unwrap() error { return e.Err }

// Invalid returns a CodeInvalid error about one field.
func Invalid(field, msg string) *Error { return &Error{Code: CodeInvalid, Field: field, Msg: msg} }

// NotFound returns a CodeNotFound error.
func NotFound(what string, id any) *Error {
	return &Error{Code: CodeNotFound, Msg: fmt.Sprintf("no %s %v in this app", what, id)}
}

// Conflict returns a CodeConflict error about one field.
func Conflict(field, msg string) *Error {
	return &Error{Code: CodeConflict, Field: field, Msg: msg}
}

// Unavailable wraps an error that may pass.
func Unavailable(what string, err error) *Error {
	return &Error{Code: CodeUnavailable, Msg: what, Err: err}
}

// CodeOf returns the code of the first *Error in err's chain, CodeInternal where there is none, ""
// for nil.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return CodeInternal
}
