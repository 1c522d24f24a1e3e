// Package chaos injects faults into real services and servers under load and checks every fire. It
// kills and freezes services. It stops, flushes and fills servers. It cuts and slows connections,
// and skews clocks.
//
// A scenario is a list of faults, and each fault proves that it happened. The traffic knows every
// fire that must happen, the receiver records every call, and package ledger compares both with the
// recorded outcomes. No timing decides over success: recovery times are measured, and a table
// compares them with their targets.
//
// Scenarios:
//
//	scenario.go          the scenarios
//	clusterscenarios.go  those on clusters of servers
//	run.go               runs scenarios on servers of its own
//	environment.go       a deployment under load
//	traffic.go           the load
//	policies.go          timers with policies
//
// Faults:
//
//	fault.go          a fault, with its target
//	services.go       kills and freezes services
//	outages.go        stops and flushes servers
//	database.go       kills connections, and causes deadlocks
//	commitproxy.go    loses the answers to commits
//	disk.go           fills the disk
//	links.go          cuts and slows connections
//	overload.go       three times the capacity
//	releases.go       upgrades and rollbacks of the programs
//	nodes.go          nodes of clusters
//	nodepick.go       which node of a kind fails
//	partition.go      cuts nodes off
//	serverupgrade.go  upgrades of clusters
//	servers.go        the servers into which faults are injected
//
// Results:
//
//	check.go     compares what happened with what had to happen, by package ledger
//	recovery.go  measures the recovery from each fault
//	result.go    results, and their tables
package chaos
