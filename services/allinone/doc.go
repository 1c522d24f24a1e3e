// Package allinone is the command line tool carillon: `carillon dev` runs the five services in one
// process over embedded parts, `carillon setup` prepares the servers of a cluster, `carillon
// topics` shows what is on the bus, `carillon try` proves that a cluster does its work, `carillon
// ring` is an endpoint that shows who called it.
package allinone
