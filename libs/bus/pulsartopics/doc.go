// Package pulsartopics shows operators the topics of a deployment: their state, backlog, consumers
// and messages. It uses only Pulsar's admin API. Reading has no side effects: it acknowledges
// nothing, moves no cursor and adds no consumer. Only Reset changes something.
//
//	topics.go  lists and describes topics and their subscriptions
//	peek.go    reads messages, and acknowledges none
//	reset.go   moves the cursor of a subscription
package pulsartopics
