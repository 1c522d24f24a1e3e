// Package pickup finds the fires that no task brings, and claims them for an executor. A poller
// asks the store three questions:
//
//   - DueSoon: which fires are unclaimed and due soon? The bus, triggers or schedulers are
//     unavailable, or a task was lost.
//   - Orphaned: what do recently expired sessions own? An executor died, or was cut off.
//   - Overdue: which fires are long past and without an alive owner? Anything else was lost. This
//     question has no lower bound in time. It proves that no fire is lost.
//
// A claim needs only the store. So every expanded fire is called, on time in most cases, while an
// executor reaches the store. A claim also needs room, so overload is not amplified.
//
// All ways in which a fire is found, with the test of what only this way makes good:
//
//	slice task       by triggers        TestP4LatenessIsMeasured
//	direct dispatch  by who committed   TestP4DirectDispatchAndBeyondHorizon
//	DueSoon          by executors       TestWithoutTasksFiresAreOnTime
//	Orphaned         by executors       mutant "orphans are not found"
//	Overdue          by executors       mutant "overdue fires are not found"
//	own claims       unanswered claims  TestTasksDuringAPollAreRedelivered
//	limit change     deferred fires     TestRaisedLimitsReadmitDeferredFires
//	order            of late fires      TestCatchUpsClaimWhatGoesBeforeThem
//
// Executors divide the buckets by the sessions they see alive, and rotate their shards. If two
// ask for the same bucket, one claim of each fire wins. So it is if a task arrives late after all. If
// an executor ends after its claim, its session expires, and others find its claims as orphans. A
// repeated poll finds what is still unclaimed.
//
// Files:
//
//	poller.go     asks, and claims what it finds as far as there is room
//	questions.go  the three questions
//	shard.go      which buckets an executor asks for
//	metrics.go    its metrics
package pickup
