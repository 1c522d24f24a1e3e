// Package payload expands variables in the URL, query, headers and body of a callback, and in the
// key of a message, where the target asks for it (Templates).
//
// # Form
//
// {{name}}, blanks around the name allowed. {{open}} is a literal "{{"; a "}}" outside is literal
// anyway. There are no expressions, loops or functions.
//
//	fire.id      the fire's identity, the same on every attempt
//	due          the due instant in the timer's zone, RFC 3339 with milliseconds
//	due.utc      the same in UTC
//	due.unix     its unix seconds
//	due.unix_ms  its unix milliseconds
//	attempt      from 1
//	cause        why the fire exists: schedule, …
//	timer.id     the timer's id
//	timer.name   the timer's name
//	app          the app's name
//	zone         the timer's zone
//	label.x      the timer's label x; empty where it has none of that name any more
//
// # Safety
//
// A value never leaves the place it stands in. In a URL it is percent-encoded, all but unreserved
// characters, and only path and query may have variables. In a header, control characters are
// refused. In a body the content type decides: in JSON it is escaped as the inside of a string, and
// text variables may stand only inside a string; in a form it is percent-encoded; in XML and HTML
// it is escaped; in any other it is put in as it is.
package payload
