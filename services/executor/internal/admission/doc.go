// Package admission decides what happens to a due fire, without effects.
//
//	decide.go  the decision, by what is known of the timer and the fires beside it
//	status.go  what the timer's state decides: its status, and the version of a fire
//	known.go   finds values of a newer release
package admission
