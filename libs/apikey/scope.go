package apikey

import (
	"fmt"
	"slices"
)

// Scope says what a key may do. Each includes those before it.
type Scope string

// The scopes.
const (
	Read  Scope = "read"  // see the app's timers, fires and outcomes
	Write Scope = "write" // make, change and delete its timers, complete and redrive its fires
	// Admin: its keys, limits and signing secrets; without an app: every app's, and the
	// deployment's.
	Admin Scope = "admin"
)

var scopes = []Scope{Read, Write, Admin}

// ParseScope reads a scope.
func ParseScope(s string) (Scope, error) {
	if !slices.Contains(scopes, Scope(s)) {
		return "", fmt.Errorf("expected read, write or admin, found %q", s)
	}
	return Scope(s), nil
}

// Includes tells whether who has the scope may do what needs another. An unknown scope includes
// nothing and is included by nothing.
func (s Scope) Includes(needed Scope) bool {
	n := slices.Index(scopes, needed)
	return n >= 0 && slices.Index(scopes, s) >= n
}
