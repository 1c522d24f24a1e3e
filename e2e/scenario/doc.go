// Package scenario has the end-to-end tests: actions of users, and faults, that happen to a
// deployment. Each scenario is written once and runs on every runner. Nothing imports this package.
// A test of one promise has its number in front (P1 to P10, see docs/guarantees.md).
package scenario
