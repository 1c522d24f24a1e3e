// Package load measures a deployment under load: fires at a steady rate, crons that are due each
// second, and a burst of fires at one instant. It creates timers through the HTTP API and receives
// their calls on the same machine. It measures lateness, and whether outcomes keep up with
// callbacks. It reports early, repeated and missing fires.
package load
