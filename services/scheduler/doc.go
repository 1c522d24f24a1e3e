// Package scheduler hands the minutes out. It leases slices to triggers as their minute comes,
// keeps the cursor behind which every slice is done, sweeps open fires that nobody is about to
// call, and ends sessions that fell silent. No scheduler leads: each does all of this, and what two
// do at once the store's rows decide.
//
// A file per task:
//
//	slices.go    claims slices and publishes them: the present first, then what the cursor has not passed
//	sweep.go     overdue open fires
//	strays.go    unclaimed fires whose task went to an executor that is gone
//	sessions.go  who lives, and what the dead had claimed
package scheduler
