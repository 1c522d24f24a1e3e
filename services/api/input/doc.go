// Package input reads and checks what callers send, whatever the resource.
//
// Files:
//
//	body.go        values of a body, with all errors at once
//	text.go        names and other texts
//	selector.go    selectors of labels
//	jsontext.go    refuses JSON with invalid characters
//	jsonfields.go  refuses JSON with repeated names, and tells which field is wrong
//	instant.go     instants as texts
//	cursor.go      cursors of pages
package input
