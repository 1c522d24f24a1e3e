// Package v2 serves /api/v2, which has all features.
//
//	routes.go    registers the operations of all resources, and their description
//	enumdocs.go  describes the values of enumerations, and bounds
//	integers.go  bounds integers, so that each is exact in JSON
//	links.go     describes which operation takes something from the answer to another
package v2
