// Package payload expands variables in the URL, query, headers and body of a callback, and in the
// key of a message, if the target enables it (Templates).
//
// # Form
//
// A variable is {{name}}; blanks around the name are allowed. {{open}} is a literal "{{"; a "}}"
// outside a variable is literal. There are no expressions, loops or functions.
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
//	label.x      the timer's label x; empty if the timer no longer has it
//
// # Safety
//
// A value cannot change the structure of the text around it. In a URL it is percent-encoded, except
// unreserved characters, only path and query may have variables, and a value that makes a segment of
// the path "." or ".." is refused. In a header, control
// characters are refused. In a body the content type decides. In JSON the value is escaped as the
// inside of a string, and text variables may occur only inside a string. In a form it is
// percent-encoded, and in XML and HTML it is escaped. In other types it is inserted unchanged.
//
// # Files
//
//	payload.go  the variables, and the expansion of a text
//	check.go    whether a text can be expanded in its place
//	place.go    places of texts, and how values are escaped there
//	longest.go  how long a text is after expansion at the most
package payload
