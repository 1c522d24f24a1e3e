package apikey

import (
	"fmt"
	"slices"
)

// Scope is what a key may do. Each scope includes those before it.
type Scope string

// Scopes of keys.
const (
	Read Scope = "read" // see the app's timers, fires and outcomes
	// Operate may keep its timers going: pause, resume and run them, redrive fires, cancel jobs.
	Operate Scope = "operate"
	Write   Scope = "write" // create, change and delete its timers
	// Admin may manage the app's keys, limits and signing secrets; without an app, those of every
	// app and of the deployment.
	Admin Scope = "admin"
)

var scopes = []Scope{Read, Operate, Write, Admin}

// ParseScope parses a scope.
func ParseScope(s string) (Scope, error) {
	if !slices.Contains(scopes, Scope(s)) {
		return "", fmt.Errorf("expected read, operate, write or admin, found %q", s)
	}
	return Scope(s), nil
}

// Includes returns whether a key of this scope may do what another scope allows. An unknown scope
// includes nothing and is included by nothing.
func (s Scope) Includes(needed Scope) bool {
	n := slices.Index(scopes, needed)
	return n >= 0 && slices.Index(scopes, s) >= n
}
