// Package engine is what the store needs of a database server: to run statements and to tell what
// its errors mean. The engines are in mysqlengine and sqliteengine.
//
//	engine.go        what an engine is: it runs statements and transactions
//	capabilities.go  what some servers can do and others cannot
//	errors.go        classes of errors, by which the store repeats or gives up
package engine
