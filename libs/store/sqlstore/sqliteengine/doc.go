// Package sqliteengine runs the store's statements on a SQLite database in a data directory.
//
// Files:
//
//	sqliteengine.go  the engine: opens the database, and runs statements
//	writer.go        the goroutine that writes, call after call in shared transactions
//	connection.go    connections, which keep prepared statements
//	snapshot.go      a transaction that reads for a backup
//	errors.go        what an error of SQLite means
package sqliteengine
