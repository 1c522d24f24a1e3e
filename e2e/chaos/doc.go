// Package chaos injects faults into real services and servers under load and checks every fire. It
// kills and freezes services. It stops, flushes and fills servers. It cuts and slows connections,
// and skews clocks.
//
// A scenario is a list of faults, and each fault proves that it happened. The traffic knows every
// fire that must happen, the receiver records every call, and package ledger compares both with the
// recorded outcomes. No timing decides over success: recovery times are measured, and a table
// compares them with their targets.
package chaos
