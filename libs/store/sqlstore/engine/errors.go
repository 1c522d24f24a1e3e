package engine

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"net"
)

// ErrRepeat rolls a transaction back and repeats it, because another call inserted a row first. The
// next try sees that row.
var ErrRepeat = errors.New("another call inserted the row first")

// ErrConnectionLost repeats a transaction whose connection ended before the commit. The server has
// rolled it back: it closes idle connections, for example after this process has stalled. The next
// try finds out whether the server is available.
var ErrConnectionLost = errors.New("the connection was lost during the transaction")

// ErrClosed is the error of calls after Close.
var ErrClosed = errors.New("the store is closed")

// Class is what an error of a driver means to the store.
type Class int

// The classes of errors.
const (
	ClassOther Class = iota
	// ClassUnavailable means that the server is unreachable, slow, full or read-only: a retry may
	// succeed later.
	ClassUnavailable
	ClassRepeat    // rolled back because of another transaction: repeat it at once
	ClassData      // a value in the statement was refused
	ClassDuplicate // a key exists already
)

// ClassOf classifies errors that all drivers share, and asks classify about the others.
func ClassOf(err error, classify func(error) Class) Class {
	var network net.Error
	switch {
	case err == nil:
		return ClassOther
	case errors.Is(err, ErrRepeat), errors.Is(err, ErrConnectionLost):
		return ClassRepeat
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded),
		errors.Is(err, driver.ErrBadConn), errors.Is(err, sql.ErrConnDone), errors.Is(err, io.EOF),
		errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, ErrClosed), errors.As(err, &network):
		return ClassUnavailable
	}
	return classify(err)
}
