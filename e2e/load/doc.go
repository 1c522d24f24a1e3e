// Package load measures a deployment: fires at a steady rate, crons that all ring each second, and
// a herd that is due at one instant. It registers through the HTTP API like any caller, is called
// back on the same machine, and tells lateness, what was early, twice or missing, and whether
// outcomes kept up with callbacks.
package load
