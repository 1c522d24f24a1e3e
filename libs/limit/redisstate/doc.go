// Package redisstate is the shared limit state in Redis, on one server or a cluster: what all
// executors together have started and may start. Each active app with limits has a hash
// "<prefix>:{l:<app>}", which expires when the app is idle. Losing all data costs each app at most
// one extra full bucket; the next Sync restores the call slots.
//
// Files:
//
//	redisstate.go  the shared state: options, keys
//	sync.go        sends the demands of one executor, and reads its permits
//	script.go      the script in Redis that divides permits among executors, in order of priority
package redisstate
