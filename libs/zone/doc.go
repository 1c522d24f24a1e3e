// Package zone provides the IANA time zones and their offsets from 1970 to 2199.
//
// # Sources
//
// Zones come from a Database: the compiled-in one, or a file that a setting names. The host's
// files, $ZONEINFO and $TZ are never used, so that all processes of one build plan the same
// instants. Programs call Use once, before any zone is loaded. Without it, Default is Embedded.
//
// The compiled-in database is a copy of Go's lib/time/zoneinfo.zip in the folder tzdata, with its
// version. make generate renews it with scripts/tzdata.sh, and CI repeats that.
//
// # Names
//
// Names are matched exactly and case-sensitively. IANA's links (US/Eastern, Asia/Calcutta) are
// valid names. Names that depend on the host or are not IANA's are rejected: Local, localtime,
// posixrules, Factory, and everything below right/ and posix/. Zones below right/ count leap
// seconds.
//
// # Tables
//
// Package time answers for one instant at a time. After the last listed change of a zone it derives
// the rule of the year on every call. A search in a Table takes only nanoseconds.
//
// # Files
//
//	database.go  databases: the compiled-in one and those of files
//	name.go      why a name is not a zone, and which to use instead
//	table.go     the offsets of one zone, by instant and by local time
//	rules.go     fingerprints of the rules of zones, by which processes compare them
package zone
