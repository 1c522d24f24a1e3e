// Package callback checks targets and calls them: it builds the request, sends it, and classifies
// the result.
//
// What all kinds of targets share:
//
//	kind.go      what differs by kind (Kind), and the list of kinds: a new one starts here
//	callback.go  a request, its result, and the classes of results
//	callers.go   the callers of all kinds, by their options
//	options.go   what HTTP and gRPC need: addresses, certificates, secrets
//	fanout.go    calls of several targets
//	failure.go   what an error of the network means
//	rules.go     regular expressions that decide which answers count as delivered
//	token.go     tokens by which a receiver completes a fire
//	excerpt.go   the beginning of an answer, for the attempt
//	redact.go    removes secrets from what is recorded
//
// Checks of a definition, which name each field that is wrong:
//
//	check.go          targets and fan-outs
//	check_http.go     HTTP
//	check_address.go  gRPC and topics
//	check_retry.go    which answers may end the retries
//	errors.go         collects what is wrong
//
// The kinds:
//
//	http.go         an HTTP call
//	request.go      its request: expands placeholders, sets URL, headers and body
//	headers.go      the headers of Carillon: fire, attempt, signature
//	answer.go       its answer: delivered, to be retried, or failed for good
//	redirect.go     redirects, as far as they are allowed
//	oauth2.go       access tokens of a target with OAuth 2
//	userinfo.go     user and password in a URL
//	internal/http1  an HTTP call without TLS, for about half of the CPU time
//	transports.go   connections, one pool for each set of TLS settings
//	tls.go          TLS settings of a target
//	grpc.go         a gRPC call
//	grpcanswer.go   its answer, and what counts as one
//	grpcpool.go     channels of gRPC
//	grpcconn.go     its connections, and why a server refuses one
//	pulsar.go       a message on a topic
package callback
