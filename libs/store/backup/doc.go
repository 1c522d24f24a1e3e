// Package backup writes a store into a directory and restores it from there. It knows no database:
// package sqlstore has a Source and a Target for each.
//
// # The directory
//
// A backup is a directory with a file manifest.json and the parts of each table. The manifest is
// written last, and atomically: a directory without it is no backup. It names every part, with its
// number of rows and its SHA-256.
//
// A part is a list of rows, one JSON array per line, compressed with Zstandard. The manifest has the
// columns in their order. A value is a number (a whole one of 64 bits), a string, null, or
// {"base64":"…"} for bytes that are no UTF-8. So a backup of SQLite can be restored into MySQL, and
// the other way.
//
// All files can be read by their owner only. Secrets in them are encrypted as in the database, and
// the keys are not part of the backup.
//
// # Promises
//
//   - K1 A backup is what the store was at one instant, although services write meanwhile. Writers
//     do not wait for it.
//   - K2 Every byte is verified before it is restored. Of a backup with a missing, changed or
//     truncated part, nothing is restored. The target may have got its tables, and stays closed to
//     services until another backup is restored.
//   - K3 A restored table has the rows of the backup exactly: no fewer, no more, and with the same
//     values. The target may change what belongs to processes or messages of the lost deployment,
//     and says so.
//   - K4 A restore that was interrupted at any point continues when it is repeated. No service uses
//     the target before all of it is there.
//   - K5 A restore never writes into a store that has rows of anybody else.
//   - K6 A backup that was interrupted is no backup. It begins anew when it is repeated, because its
//     snapshot ended with its connection. A complete backup is never replaced.
//
// # Files
//
//	contract.go   what a backup needs of a store: Source and Target
//	write.go      writes a backup
//	restore.go    verifies a backup, and restores it
//	directory.go  the directory of a backup that is being written
//	manifest.go   the manifest
//	parts.go      the files with rows
//	rows.go       rows as JSON
package backup
