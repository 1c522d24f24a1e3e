// Package pulsarbus is the message bus on Apache Pulsar. It keeps the promises of package bus.
//
// A topic is persistent://<tenant>/<namespace>/<name>. Publish sends at once what it got; it does
// not wait for more to fill a batch. Added partitions are used within a minute. Subscriptions are
// Shared. Acknowledgements reach the broker within 100 ms, per message even inside a batch. A
// failed message is nacked with the back-off of package bus. Pulsar redelivers whole batches, so
// queued messages of the same batch may then arrive twice.
//
// The broker may be unavailable at any time. New does not connect; every other call waits for the
// broker until its context ends. Producers and consumers reconnect by themselves. A deleted topic
// is recreated according to the last Setup on this bus, with its producers and consumers.
//
// The bus:
//
//	pulsarbus.go         a process's connection to Pulsar
//	producer.go          publishes to a topic
//	partitions.go        the producers of a topic, one for each partition, and the partition of a key
//	consumer.go          a subscription
//	broadcast.go         reads a topic from its end, without a subscription
//	external.go          publishes to topics outside Carillon, for targets
//	externalproducer.go  the producer of such a topic, which waits for confirmations
//
// Topics:
//
//	setup.go  creates and restores topics, subscriptions and schemas
//	rest.go   the admin REST API
//
// Connections:
//
//	login.go            how the client logs in
//	await.go            repeats the creation of producers and consumers; back-off
//	connectionerror.go  why the bus could not connect
//	connectionstate.go  whether a client is connected, and what its broker refused
//	watch.go            checks that the broker knows a consumer
//	errors.go           what an error of the client means
//	logger.go           passes the client's log on
package pulsarbus
