// Package session keeps a process's session alive and monitors other sessions.
//
// A session proves that it is alive by renewals in the store. Its Heartbeater considers it valid
// for LeaseValidity after sending the last successful renewal. A Monitor expires it only after
// seeing the same renewal number for Timeout, which is longer. Each side measures on its own
// monotonic clock, so no clocks are compared. Hence everything that a session does while valid
// happens before others may take over its claims.
//
// Files:
//
//	heartbeater.go  opens and renews the session of this process, and says whether it is valid
//	monitor.go      declares other sessions expired; executors and schedulers each run one
package session
