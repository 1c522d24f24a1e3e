// Package bustest is the suite of the contract in package bus: one test per promise. Every
// implementation runs it.
//
//	bustest.go    runs the suite; what its tests share
//	delivery.go   messages are kept, divided and unchanged, and return when a consumer dies
//	answers.go    what the error of a handler does; limits of consumers
//	broadcast.go  broadcasts; setup more than once
package bustest
