// Package apitest runs the HTTP API over an embedded store and bus, for the tests of its resources.
//
// Files:
//
//	apitest.go   a running API with its store
//	fixture.go   calls of it, and what they answer
//	timers.go    calls about timers
//	keys.go      an API that requires keys
//	executor.go  acts as an executor
//	values.go    values for tests
//	texts.go     timers with difficult texts
package apitest
