// Package rediswindow is the window in Redis, on one server or a cluster.
//
// # Keys
//
// Each slice is one key, a sorted set:
//
//	<prefix>:{w:<minute>:<bucket>}
//	    -inf       the generation: "g" and a random text; created only by Open
//	    run_at_ms  an entry: the bytes of a carillon.v1.Task
//
// The generation is in the same key as the entries, so any loss of the entries also loses it.
// Examples are a restart without persistence, an eviction, FLUSHALL, and a slot without node. No
// order of events keeps only one of them. The braces keep a slice on one node of a cluster and spread the
// slices over all nodes. The key expires window.TTL after its minute; nothing else removes it.
//
// Entries of the same fire and revision have the same bytes, so putting one twice adds nothing. If
// the row of a fire changes without a new revision, two entries exist, and Range returns the one of
// the higher version.
//
// One more key has the database that these fires are in, and the process that said so first:
//
//	<prefix>:database
//
// # Requirements
//
// Redis must run without snapshots, without an append-only file and without eviction. After a
// restart from an old snapshot or from a file whose end is lost, or a failover to a replica that lags
// behind, the generation can exist while entries are missing. No fire is lost then, but the missing
// ones wait for the polls of the store. Ping checks the settings once and logs warnings.
//
// # Files
//
//	rediswindow.go  the window: puts entries, opens slices
//	page.go         reads a page of a slice's entries
//	claim.go        claims the prefix for a database
//	ping.go         checks that Redis answers, and its settings
//	dialerror.go    why the last connection failed
//	logger.go       switches off the log of the client library
package rediswindow
