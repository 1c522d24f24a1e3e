// Package allinone implements the command line tool carillon. `carillon dev` runs the five services
// in one process over embedded parts. `carillon setup` prepares the servers of a cluster. `carillon
// topics` shows the topics on the bus. `carillon try` checks a cluster with a timer of its own.
// `carillon echo` is an endpoint that prints each call. `carillon reencrypt` rotates the encryption
// key of stored secrets.
package allinone
