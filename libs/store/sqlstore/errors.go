package sqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"

	"github.com/go-sql-driver/mysql"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/carillon-timer/carillon/libs/timer"
)

// errRepeat rolls a transaction back and repeats it, because another call inserted a row first. The
// next try sees that row.
var errRepeat = errors.New("another call inserted the row first")

// errConnectionLost repeats a transaction whose connection ended before the commit. The server has
// rolled it back: it closes idle connections, for example after this process has stalled. The next
// try finds out whether the server is available.
var errConnectionLost = errors.New("the connection was lost during the transaction")

// errClosed is the error of calls after Close.
var errClosed = errors.New("the store is closed")

// translate gives a driver's error its code. what names the operation.
func (d *dialect) translate(what string, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*timer.Error](err); ok {
		return err
	}
	switch d.classOf(err) {
	case classUnavailable, classRepeat:
		if isFull(err) {
			return timer.Unavailable(fullDisk, err)
		}
		return timer.Unavailable(what, err)
	default:
		return fmt.Errorf("%s: %w", what, err)
	}
}

// fullDisk is the message for a write that found no room. Somebody has to make room: waiting does
// not help.
const fullDisk = "the database has no room left: its disk, or a limit of its size, is full"

// isFull reports whether a write found no room.
func isFull(err error) bool {
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		return e.Code()&0xff == sqlite3.SQLITE_FULL
	}
	e, ok := errors.AsType[*mysql.MySQLError](err)
	if !ok {
		return false
	}
	switch e.Number {
	case 20, 1021, 1114: // disk full, as the file layer and the server report it; table full
		return true
	case 3,
		1026,
		1030: // write error of the storage engine: 28 is ENOSPC of the operating system
		return noSpace.MatchString(e.Message)
	}
	return false
}

var noSpace = regexp.MustCompile(`\b(error|errno:?|OS errno) 28\b|No space left on device`)

// classOf classifies errors that all drivers share, and asks the dialect about the others.
func (d *dialect) classOf(err error) class {
	var network net.Error
	switch {
	case err == nil:
		return classOther
	case errors.Is(err, errRepeat), errors.Is(err, errConnectionLost):
		return classRepeat
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded),
		errors.Is(err, driver.ErrBadConn), errors.Is(err, sql.ErrConnDone), errors.Is(err, io.EOF),
		errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, errClosed), errors.As(err, &network), isFull(err):
		return classUnavailable
	}
	return d.classify(err)
}

// classifyMySQL goes by the error numbers that MySQL and MariaDB share.
func classifyMySQL(err error) class {
	if errors.Is(err, mysql.ErrInvalidConn) || errors.Is(err, mysql.ErrMalformPkt) ||
		errors.Is(err, mysql.ErrPktSync) {
		return classUnavailable
	}
	var e *mysql.MySQLError
	if !errors.As(err, &e) {
		return classOther
	}
	switch e.Number {
	case 1205, 1213, 3101: // lock wait timeout, deadlock, rolled back by a cluster
		return classRepeat
	case 1062, 1586: // duplicate key
		return classDuplicate
	case 1264, 1265, 1366, 1406, 1292, 1300, 1048, 3140, 1153, 1301, 4025, 3819:
		// out of range, truncated, wrong value, too long, wrong text, wrong bytes, null, JSON, too
		// large, check
		return classData
	case 1021,
		1030,
		1037,
		1038,
		1040,
		1041,
		1053,
		1077,
		1079,
		1114,
		1129,
		1146,
		1152,
		1158,
		1159,
		1160,
		1161,
		1184,
		1203,
		1207,
		1226,
		1290,
		1317,
		1792,
		1836,
		1927,
		1969,
		3024,
		3032,
		3100:
		// disk full, engine, memory, too many connections, shutdown, table full, host blocked, no
		// such table (not migrated yet), connection aborted or lost, user limits, read-only,
		// interrupted, killed, time limit, replication
		return classUnavailable
	}
	return classOther
}

// classifySQLite goes by primary result codes, which are the low byte of the extended ones.
func classifySQLite(err error) class {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return classOther
	}
	switch e.Code() {
	case sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY,
		sqlite3.SQLITE_CONSTRAINT_UNIQUE,
		sqlite3.SQLITE_CONSTRAINT_ROWID:
		return classDuplicate
	}
	switch e.Code() & 0xff {
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		return classRepeat
	case sqlite3.SQLITE_CONSTRAINT,
		sqlite3.SQLITE_TOOBIG,
		sqlite3.SQLITE_MISMATCH,
		sqlite3.SQLITE_RANGE:
		return classData
	case sqlite3.SQLITE_IOERR,
		sqlite3.SQLITE_FULL,
		sqlite3.SQLITE_CANTOPEN,
		sqlite3.SQLITE_NOMEM,
		sqlite3.SQLITE_READONLY,
		sqlite3.SQLITE_INTERRUPT,
		sqlite3.SQLITE_PROTOCOL:
		return classUnavailable
	}
	return classOther
}
