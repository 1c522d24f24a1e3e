// Package membus is the embedded message bus: a broker in the memory of one process, shared by any
// number of clients. It keeps the promises of package bus while the process lives. Tests can inject
// faults (Faults), make it unavailable (Pause), and kill a client as SIGKILL would (Bus.Kill).
//
// Files:
//
//	membus.go        the broker, and a client of it
//	topic.go         a topic: stores what is published
//	subscription.go  the messages that its consumers divide
//	consumer.go      calls handlers
//	queue.go         a queue of deliveries
//	faults.go        faults that tests inject
package membus
