// Package route registers the operations of v2.
//
// Files:
//
//	route.go    adds operations, with what all of them have
//	empty.go    refuses empty values of query parameters
//	ignored.go  refuses what an operation would ignore
package route
