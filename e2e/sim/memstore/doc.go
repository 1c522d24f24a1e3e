// Package memstore is a store.Store in plain Go maps, for the simulation: it passes the suite that
// the databases pass, at a hundredth of their cost. It survives nothing.
//
// One lock is held for the whole of each call, so every call is one transaction that is applied
// whole, at one instant. What a database does besides, as to roll back, repeat, or answer late, is
// the business of whoever wraps it. A Planner is called under the lock.
package memstore
