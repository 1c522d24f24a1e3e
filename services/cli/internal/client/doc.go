// Package client calls the HTTP API v2 for commands.
//
//	client.go  requests, and lists page by page
//	stream.go  streams of events and of lines
//	error.go   error answers
package client
