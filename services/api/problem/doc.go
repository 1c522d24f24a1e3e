// Package problem converts errors to what callers see of them.
//
//	fault.go       an error as callers see it, and its status
//	problem.go     errors in the form of v2 (RFC 9457), with an entry for each wrong field
//	validation.go  huma's validation messages, in the form of all others
//	refuse.go      answers with an error, in the form of v1 or v2
package problem
