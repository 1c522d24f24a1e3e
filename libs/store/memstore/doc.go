// Package memstore is a store.Store in plain Go maps, for simulations and for users' tests.
//
// It passes the same suite as the databases, at about a hundredth of their cost, except for dry runs
// (S38): it cannot roll back, so it panics. It keeps nothing: all data is gone with the Store.
//
//	s := memstore.New(time.Now)
//
// Each call holds one lock from its beginning to its end. Every call is therefore one transaction
// that is applied whole, at one instant. A Planner is called under that lock.
//
// A database also rolls back, repeats transactions and answers late. A test that needs this wraps
// the Store.
package memstore
