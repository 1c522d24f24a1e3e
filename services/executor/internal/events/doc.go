// Package events publishes the recorded outcomes of an executor.
//
//	events.go  the queue of outcomes, the overflow read from the store, and the acknowledged position
package events
