// Package firetrace makes the spans of a fire's trace, when the fire has its outcome or leaves the
// executor. It makes them from what the executor has noted, so a fire whose trace is not kept costs
// a note.
//
//	notes.go  notes what happens to a fire
//	spans.go  makes the spans of it
package firetrace
