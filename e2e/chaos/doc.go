// Package chaos breaks real things under load and shows what became of the fires: services are
// killed and frozen, servers are stopped, wiped and filled up, ways between them are cut or made
// slow, clocks are set wrong. A scenario is a list of faults, each of which proves that it
// happened; the traffic knows every fire that must happen, the receiver records every call, and the
// ledger compares both with what was recorded. No time decides over success: recovery times are
// measured and compared with their targets in a table.
package chaos
