// Package client calls the HTTP API v2 for commands.
//
//	client.go  requests, and lists page by page
//	stream.go  streams of events
//	error.go   error answers
package client
