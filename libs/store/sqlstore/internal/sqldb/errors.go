package sqldb

import (
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
		return timer.Unavailable(what, err)
	case engine.ClassOther, engine.ClassData, engine.ClassDuplicate:
	}
	return fmt.Errorf("%s: %w", what, err)
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
