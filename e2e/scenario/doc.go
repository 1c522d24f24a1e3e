// Package scenario holds the stories: what users and faults do to a deployment, each written once
// and run on every runner. They are tests; nothing imports this package. The name of a test begins
// with the promise that it proves (P1 to P10, see docs/guarantees.md).
package scenario
