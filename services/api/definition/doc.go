// Package definition reads, checks and shows the definitions of timers.
//
// Files:
//
//	schedule.go     reads and shows schedules
//	policies.go     reads and shows the policies of retries, misfires and concurrency
//	targets.go      reads and shows targets
//	targetcheck.go  checks targets and labels
//	secrets.go      encrypts the secrets of a target, or keeps the stored ones
//	userinfo.go     moves user and password of a URL into a secret header
//	check.go        checks a whole definition
//	document.go     reads documents of JSON or YAML
//	binary.go       refuses bytes in YAML that are no text
//	shownonly.go    fields that only the service sets
package definition
