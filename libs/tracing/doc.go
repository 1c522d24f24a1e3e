// Package tracing exports OpenTelemetry traces, configured by the standard's variables (OTEL_…).
//
// The life of a fire is one trace. Its id derives from the fire's id (package traceid), so every
// process adds spans to it without passing a context through the bus or the store, and a sampler by
// ratio decides the same everywhere. The executor that ends a fire makes its spans afterwards, from
// the instants that it has noted. So it knows the outcome when it decides whether to keep the
// trace, and nothing is made of traces that nobody keeps.
//
// A nil *Tracer is a tracer that is off: every method is allowed and does nothing.
//
// Spans wait for the exporter in a bounded queue. While the collector is away, further spans are
// dropped and counted. No caller ever waits.
//
//	settings.go  reads the variables
//	tracer.go    makes the exporter; starts and stops it
//	sampling.go  decides which traces are kept
//	queue.go     bounds and counts the spans that wait for the exporter
//	span.go      spans that are made after what they describe
//	fire.go      the root span of a fire
//	batch.go     spans of operations on many fires
//	request.go   spans of requests to the API, and the origin of timers
package tracing
