// Package sqlstore is the store on a database: MySQL 8 or MariaDB 10.11 for a cluster, SQLite for
// one process. One body of code with a small dialect beats two stores that drift.
//
// # How to get one
//
//	s, err := sqlstore.OpenMySQL(ctx, sqlstore.MySQLOptions{DSN: dsn, Logger: log})
//	s, err := sqlstore.OpenSQLite(ctx, sqlstore.SQLiteOptions{Dir: "./data", Now: time.Now, Logger: log})
//	err = s.Migrate(ctx) // once per program; any number of processes may do so at once
//	defer s.Close()
//
// Both return *Store, which is a store.Store. OpenMySQL connects to nothing: it fails only for a
// DSN that can never work, and a server that is away shows in Ping (unavailable) and in every call.
// OpenSQLite takes an exclusive lock on the data directory and ends every session that an earlier
// process left; an empty Dir means a temporary one, gone with Close, for tests. Both take Faults,
// which make the store misbehave by a seed; SetFaults changes them later.
//
// # Rules that hold all over the package
//
//   - All times are BIGINT unix milliseconds. "Now" on MySQL is the server's clock, read inside the
//     statement; on SQLite it is the option's, so that a test can move it.
//   - Connections are READ COMMITTED, strict, and UTC. Statements take at most store.MaxBatch rows,
//     sorted by primary key, and a transaction touches timers, then fires, then outcomes: so two of
//     them rarely wait in a circle, and when they do one is rolled back and repeated whole.
//   - Nothing is inserted with IGNORE, which drops bad rows in silence: an upsert that changes
//     nothing, then a look at what is there.
//   - On MySQL single statements are autocommitted: a transaction around one would cost two round
//     trips more.
//   - On SQLite one goroutine writes. Calls that wait for it share one transaction, each in a
//     savepoint of its own, and return after its commit: one fsync for all of them.
package sqlstore
