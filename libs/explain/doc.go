// Package explain tells for any instant why a timer was called, was not called, or will be.
//
// It guesses nothing. Read gathers what the store knows about a timer: its definitions with the
// times since when they are in force, its inactive periods, its open fires and its outcomes. Facts
// then judge each instant by the definition that was in force. An instant about which the store
// keeps nothing any more is unknown.
//
// Every answer has a Code for programs and a sentence for people.
package explain
