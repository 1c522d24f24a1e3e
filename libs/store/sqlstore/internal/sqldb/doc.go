// Package sqldb is what all statements of the store share: the transactions and their repetition,
// the text of statements, the dialect in which the two databases differ, guards, dry runs, injected
// faults and the store's clock. It knows no table but the guards'.
//
// Files:
//
//	db.go            a database
//	tx.go            transactions: repeated after a deadlock, batched on SQLite
//	statement.go     builds the text of a statement with its values
//	dialect.go       what differs between MySQL and SQLite
//	catalog.go       the next number of a table
//	guards.go        rows that stand for locks where nodes share none
//	errors.go        what an error of the database means
//	writefailure.go  the last write that failed
//	dryrun.go        transactions that are rolled back
//	faults.go        faults by a seed, for tests
//	clock.go         the clock of the database
//	deleteall.go     deletes many rows in steps, and the old ones of a log
//	firekeys.go      conditions on the keys of fires
//	values.go        values as columns have them
package sqldb
