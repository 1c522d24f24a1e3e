// Package explain tells for any instant why a timer was called, was not called, or will be.
//
// It guesses nothing. Read gathers what the store knows about a timer: its definitions with the
// times since when they are in force, its inactive periods, its open fires and its outcomes. Facts
// then judge each instant by the definition that was in force. An instant about which the store
// keeps nothing any more is unknown.
//
// Every answer has a Code for programs and a sentence for people.
//
// An instant of a timer:
//
//	read.go        gathers the facts of a timer from the store
//	explain.go     explains each instant of a range by the facts; has the sentences about instants
//	               without a fire
//	maxfires.go    where max_fires ends a timer
//	fixeddelay.go  the instants of a fixed delay, which its schedule does not have
//	open.go        explains open fires
//	text.go        the sentences about instants whose fire has finished
//	code.go        the codes of instants, with their meanings
//
// One fire:
//
//	life.go     the life of a fire, hop by hop, in sentences
//	hopcode.go  the codes of hops, with their meanings
//
// Coming fires:
//
//	holds.go      what holds coming fires back now, with codes and sentences
//	openholds.go  which fires came due and are open now
package explain
