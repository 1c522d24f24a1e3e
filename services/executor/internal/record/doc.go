// Package record writes the results of an executor's attempts, in batches.
//
//	record.go        writes outcomes, retries and releases until the store has them
//	metrics.go       fires by outcome, and the batches in which they are written
//	appmetrics.go    those labelled by app
//	timermetrics.go  those labelled by timer
package record
