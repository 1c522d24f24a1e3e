package sqldb

import (
	"context"
	"errors"
	"fmt"

	"github.com/carillon-timer/carillon/libs/store/sqlstore/engine"
	"github.com/carillon-timer/carillon/libs/timer"
)

// Translate gives a driver's error its code. what names the operation.
func (d *Dialect) Translate(what string, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*timer.Error](err); ok {
		return err
	}
	switch d.ClassOf(err) {
	case engine.ClassUnavailable, engine.ClassRepeat:
		if d.isFull(err) {
			return timer.Unavailable(fullDisk, err)
		}
		return timer.Unavailable(what+": "+d.unavailable(err), err)
	case engine.ClassOther, engine.ClassData, engine.ClassDuplicate:
	}
	return fmt.Errorf("%s: %w", what, err)
}

// unavailable says why a repetition may help, for callers of the API. They do not see the cause,
// which may name servers.
func (d *Dialect) unavailable(err error) string {
	if d.ClassOf(err) == engine.ClassRepeat && !errors.Is(err, engine.ErrConnectionLost) {
		return "the database is busy with other writes"
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return "the database did not answer in time"
	}
	return "the database is unavailable"
}

// fullDisk is the message for a write that found no room. Somebody has to make room: waiting does
// not help.
const fullDisk = "the database has no room left: its disk, or a limit of its size, is full"

// ClassOf returns the class of an error of the dialect's engine.
func (d *Dialect) ClassOf(err error) engine.Class {
	if d.isFull(err) {
		return engine.ClassUnavailable
	}
	return engine.ClassOf(err, d.classify)
}
