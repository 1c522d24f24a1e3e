// Package lookup answers what decisions about fires need to know, in batches and without a
// goroutine that waits per fire.
//
//	reader.go  one kind of question
//	set.go     readers that close together, and their usual options
package lookup
