// Package zone knows the IANA time zones and their offsets from 1970 to 2199.
//
// # Where zones come from
//
// Zones come from a Database: the one that is compiled in, or one file that a setting names. The
// host's files, $ZONEINFO and $TZ never matter, so that all processes of one build plan the same
// instants. Programs call Use once, before anything is loaded; without it Default is Embedded.
//
// The compiled-in database is a copy of Go's lib/time/zoneinfo.zip in the folder tzdata, with its
// version. scripts/tzdata.sh renews it as a part of make generate, which CI repeats.
//
// # Names
//
// A name is matched exactly, case included. IANA's links (US/Eastern, Asia/Calcutta) are names too.
// Names that depend on the host or that are not IANA's are refused: Local, localtime, posixrules,
// Factory, and everything below right/ and posix/. Zones below right/ count leap seconds.
//
// # Tables
//
// Package time answers one instant at a time. From the last listed change of a zone on, it works
// out the rule of the year on every call. A Table is searched instead, in nanoseconds.
package zone
