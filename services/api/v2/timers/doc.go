// Package timers manages timers: creates, edits, pauses, lists and deletes them.
//
// A file per group of operations:
//
//	resource.go  the operations, with their paths
//	create.go    create a timer; create or replace it by name
//	patch.go     change some fields
//	delete.go    delete
//	read.go      read
//	list.go      list and search
//	controls.go  pause, resume, run now
//	batch.go     create or replace many
//	export.go    export an app
//	import.go    import an app
//	testcall.go  call a target that is not stored, as a test
//
// What they share:
//
//	types.go       bodies of requests and answers
//	body.go        a body as a definition
//	defaults.go    defaults of a body
//	etag.go        If-Match and the version of a definition
//	dryrun.go      answers of dry runs
//	warnings.go    warnings in an answer
//	oneshot.go     what became of the fire of a one-shot
//	filter.go      parameters of a search
//	importdocs.go  documents of an import
//	testslots.go   how many test calls run at once
package timers
