// Package sqlstore is the store on a database: MySQL 8 or MariaDB 10.11 for a cluster, SQLite for
// one process. Both share one body of code with a small dialect, so they cannot drift apart.
//
// # How to open a store
//
//	s, err := sqlstore.OpenMySQL(ctx, sqlstore.MySQLOptions{DSN: dsn, Logger: log})
//	s, err := sqlstore.OpenSQLite(ctx, sqlstore.SQLiteOptions{Dir: "./data", Now: time.Now, Logger: log})
//	err = s.Migrate(ctx) // once per program; any number of processes may do so at once
//	defer s.Close()
//
// Both return a *Store, which is a store.Store.
//
// OpenMySQL does not connect, and fails only for a DSN that can never work. If the server is
// unavailable, Ping and every call return unavailable.
//
// OpenSQLite takes an exclusive lock on the data directory and ends every session that an earlier
// process left. An empty Dir is a temporary directory for tests, which Close removes.
//
// Both take Faults, which make the store misbehave by a seed. SetFaults changes them later.
//
// # Backups
//
// SnapshotMySQL and SnapshotSQLite are the sources of package backup, RestoreMySQL and RestoreSQLite
// its targets. A migration that adds a table decides whether it is in backups: see leftOutTables.
//
// # Packages
//
// Package engine is what the store needs of a database: to run statements and to tell what its
// errors mean. Packages mysqlengine and sqliteengine are the two engines, with their connections,
// locks and error codes.
//
// The statements are in packages by noun, below internal. This package opens, migrates, backs up and
// restores the database, and puts the nouns together: a Store embeds one type of each, whose exported
// methods are those of store.Store. A noun uses those above it:
//
//   - sqldb: transactions, the text of statements and the dialect, for all nouns;
//   - apps, audit, admin, jobs: apps, their audit trail, settings and keys, and jobs about them;
//   - sessions, minutes: who is alive, and who has which slices of fires;
//   - timers, calendars: the rows of timers with their versions, and what marks them to be replanned;
//   - history: outcomes and attempts;
//   - fires: open fires, from the claim to the outcome, and their slots;
//   - scheduling: whatever plans fires: creates, edits, changes of status, expansions, backfills;
//   - search, housekeeping: the search of timers, and what removes expired rows.
//
// Where nouns use each other, one type has what callers of the store do, and a second one (Rows,
// Trail) what other nouns do in their transactions.
//
// # Rules of the packages
//
//   - All times are BIGINT unix milliseconds. On MySQL, "now" is the server's clock, read in the
//     statement. On SQLite it is the clock of the options, so that a test can move it.
//   - Connections are READ COMMITTED, strict and in UTC.
//   - Statements take at most store.MaxBatch rows, sorted by primary key. A transaction touches
//     timers first, then fires, then outcomes. Deadlocks are therefore rare. If one occurs, a
//     transaction is rolled back and repeated as a whole.
//   - No statement uses INSERT IGNORE, which accepts bad rows silently. An upsert that changes
//     nothing is followed by a read of the row.
//   - On MySQL, single statements are autocommitted: a transaction would cost two more round trips.
//   - On SQLite, one goroutine writes. Waiting calls share one transaction, each in a savepoint of
//     its own, and return after its commit: one fsync serves all of them.
package sqlstore
