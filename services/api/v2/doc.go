// Package v2 serves /api/v2, which has all features.
//
//	routes.go    registers the operations of all resources, and their description
//	enumdocs.go  describes the values of enumerations, and bounds
//	integers.go  bounds integers, so that each is exact in JSON
//	links.go     describes which operation takes something from the answer to another
//
// Each resource is a package: apps, audit, backfills, calendars, explain, fires, history, jobs,
// operations, people, schedules and timers. Package route registers their operations, and param has
// the parameters that they share.
package v2
