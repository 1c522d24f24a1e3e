// Package pulsaradmin reaches Pulsar's admin API at one of several addresses.
//
// Every broker serves the whole API. It redirects a request to the broker that owns the topic. A
// broker that is down must therefore not stop requests that another one can answer.
package pulsaradmin
