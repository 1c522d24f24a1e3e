// Package dirlock locks a directory for one process.
package dirlock
