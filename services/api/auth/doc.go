// Package auth decides who calls the API, and what the caller may do.
//
// Files:
//
//	auth.go      identifies callers, and checks their scope and app before an operation runs
//	scopes.go    the scope that a method needs
//	keycache.go  caches keys of the store
//	keyfile.go   reads the file of keys
//	roles.go     the scope of a caller in an app, and its check
package auth
