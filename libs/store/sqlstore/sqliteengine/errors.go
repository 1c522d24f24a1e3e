package sqliteengine

import (
	"errors"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/carillon-timer/carillon/libs/store/sqlstore/engine"
)

// IsFull reports whether a write found no room.
func IsFull(err error) bool {
	e, ok := errors.AsType[*sqlite.Error](err)
	return ok && e.Code()&0xff == sqlite3.SQLITE_FULL
}

// IsDamaged reports whether the file is no database, or a damaged one.
func IsDamaged(err error) bool {
	e, ok := errors.AsType[*sqlite.Error](err)
	return ok && (e.Code()&0xff == sqlite3.SQLITE_NOTADB || e.Code()&0xff == sqlite3.SQLITE_CORRUPT)
}

// Classify goes by primary result codes, which are the low byte of the extended ones.
func Classify(err error) engine.Class {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return engine.ClassOther
	}
	switch e.Code() {
	case sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY,
		sqlite3.SQLITE_CONSTRAINT_UNIQUE,
		sqlite3.SQLITE_CONSTRAINT_ROWID:
		return engine.ClassDuplicate
	}
	switch e.Code() & 0xff {
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		return engine.ClassRepeat
	case sqlite3.SQLITE_CONSTRAINT,
		sqlite3.SQLITE_TOOBIG,
		sqlite3.SQLITE_MISMATCH,
		sqlite3.SQLITE_RANGE:
		return engine.ClassData
	case sqlite3.SQLITE_IOERR,
		sqlite3.SQLITE_FULL,
		sqlite3.SQLITE_CANTOPEN,
		sqlite3.SQLITE_NOMEM,
		sqlite3.SQLITE_READONLY,
		sqlite3.SQLITE_INTERRUPT,
		sqlite3.SQLITE_PROTOCOL:
		return engine.ClassUnavailable
	}
	return engine.ClassOther
}
