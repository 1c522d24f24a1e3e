// Package pulsartopics shows the topics of a deployment as an operator wants to see them: what
// there is, what waits, who reads, and what the messages say. It talks to Pulsar's admin API only,
// and reading disturbs nobody: nothing is acknowledged, no cursor moves and no consumer appears.
// The one thing that changes something is Reset.
package pulsartopics
