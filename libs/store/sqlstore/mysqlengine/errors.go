package mysqlengine

import (
	"crypto/tls"
	"errors"
	"regexp"
	"slices"

	"github.com/go-sql-driver/mysql"

	"github.com/carillon-timer/carillon/libs/store/sqlstore/engine"
)

// IsFull reports whether a write found no room.
func IsFull(err error) bool {
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

// IsPartitionChanged reports whether a change of partitions was refused because they exist or are
// gone, or interrupted by a change from another node.
func IsPartitionChanged(err error) bool {
	e, ok := errors.AsType[*mysql.MySQLError](err)
	// not in the list of partitions, ranges not increasing, same name, interrupted
	return ok && slices.Contains([]uint16{1507, 1493, 1517, 1317}, e.Number)
}

// Classify goes by the error numbers that MySQL and MariaDB share.
func Classify(err error) engine.Class {
	if errors.Is(err, mysql.ErrInvalidConn) || errors.Is(err, mysql.ErrMalformPkt) ||
		errors.Is(err, mysql.ErrPktSync) || errors.Is(err, ErrNotServing) {
		return engine.ClassUnavailable
	}
	// A certificate that was replaced or has expired on one side comes right without a restart.
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return engine.ClassUnavailable
	}
	var e *mysql.MySQLError
	if !errors.As(err, &e) {
		return engine.ClassOther
	}
	switch e.Number {
	case 1020, 1205, 1213, 3101:
		// Row changed since it was read, lock wait timeout, deadlock, rolled back by a cluster. In a
		// cluster each statement and each commit may return a deadlock: another node's transaction
		// wrote the same row first.
		return engine.ClassRepeat
	case 1062, 1586: // duplicate key
		return engine.ClassDuplicate
	case 1264, 1265, 1366, 1406, 1292, 1300, 1048, 3140, 1153, 1301, 4025, 3819:
		// out of range, truncated, wrong value, too long, wrong text, wrong bytes, null, JSON, too
		// large, check
		return engine.ClassData
	case 1021,
		1030,
		1037,
		1038,
		1040,
		1041,
		1047,
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
		1180,
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
		// interrupted, killed, time limit, replication, outside of the cluster, error during a
		// commit (whose result nobody knows)
		return engine.ClassUnavailable
	}
	return engine.ClassOther
}
