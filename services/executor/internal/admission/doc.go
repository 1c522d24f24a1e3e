// Package admission decides what happens to a due fire, without effects.
//
//	decide.go  the decision, by what is known of the timer and the fires beside it
//	status.go  the part that the timer's status decides
//	known.go   finds values of a newer release
package admission
