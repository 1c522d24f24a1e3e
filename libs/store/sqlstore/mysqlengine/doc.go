// Package mysqlengine runs the store's statements on MySQL 8 or MariaDB 10.11.
//
// Files:
//
//	mysqlengine.go  the engine: its pools, and how it runs statements
//	dsn.go          reads the DSN, and adds what the store depends on
//	nodes.go        connects to the first of several nodes that serves
//	inuse.go        which of several nodes is in use, and the log lines about it
//	served.go       checks that a connection's node still serves
//	repeatable.go   connections that can repeat migrations
//	lock.go         locks by GET_LOCK
//	tablelock.go    locks in a table, where GET_LOCK does not exclude all
//	snapshot.go     a transaction that reads for a backup
//	errors.go       what an error of MySQL means
package mysqlengine
