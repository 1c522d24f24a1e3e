package timer

import (
	"errors"
	"fmt"
)

// Code is the category of an error. The API maps it to a status.
type Code string

// The codes. An error without a code is CodeInternal.
const (
	CodeInvalid  Code = "invalid"
	CodeNotFound Code = "not_found"
	CodeConflict Code = "conflict"
	// CodeUnavailable means that a server is unreachable or slow. The same call may succeed later.
	CodeUnavailable Code = "unavailable"
	CodeInternal    Code = "internal"
)

// Error is an error that a user can act on.
type Error struct {
	Code  Code
	Field string // the field at fault, dotted ("schedule.specs[0]"); may be empty
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

// NoSuch returns a CodeNotFound error about something that belongs to no app.
func NoSuch(what string, id any) *Error {
	return &Error{Code: CodeNotFound, Msg: fmt.Sprintf("no %s %v", what, id)}
}

// NotFound returns a CodeNotFound error about something of an app.
func NotFound(what string, id any) *Error {
	return &Error{Code: CodeNotFound, Msg: fmt.Sprintf("no %s %v in this app", what, id)}
}

// Conflict returns a CodeConflict error about one field.
func Conflict(field, msg string) *Error {
	return &Error{Code: CodeConflict, Field: field, Msg: msg}
}

// Unavailable wraps an error that may be temporary.
func Unavailable(what string, err error) *Error {
	return &Error{Code: CodeUnavailable, Msg: what, Err: err}
}

// CodeOf returns the code of the first *Error in err's chain. It returns CodeInternal if there is
// none, and "" for nil.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return CodeInternal
}
