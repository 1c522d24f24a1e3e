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
//	internal/sqldb         transactions, the text of statements and the dialect, for all nouns
//	internal/apps          the rows of apps
//	internal/audit         their audit trail
//	internal/admin         their freeze, settings and keys, and sign-ins that are ended
//	internal/jobs          jobs about many timers of an app
//	internal/sessions      who is alive
//	internal/minutes       who has which slices of fires
//	internal/timers        the rows of timers with their versions, and the change log
//	internal/calendars     what marks timers to be replanned: calendars and time zones
//	internal/history       outcomes and attempts
//	internal/fires         open fires, from the claim to the outcome, and their slots
//	internal/scheduling    what plans fires: creates, edits, status, expansions, backfills
//	internal/search        the search of timers
//	internal/housekeeping  what removes expired rows
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
//
// # Files
//
// The store:
//
//	store.go        a store: its nouns put together, its clock and readiness
//	options.go      settings
//	mysql.go        opens a store on MySQL
//	sqlite.go       opens a store on SQLite
//	server.go       checks the settings of a MySQL server
//	migrate.go      runs migrations
//	tables.go       refuses tables of another application
//	laterschema.go  refuses a schema of later programs
//
// Backups:
//
//	backuptables.go   which tables and columns a backup has
//	snapshot.go       the source of a backup
//	restore.go        the target: refuses a store in use
//	restoreload.go    loads rows
//	restorefinish.go  counts them, and lets services use the store
//	restoring.go      the error while a restore has not finished
package sqlstore
