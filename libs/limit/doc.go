// Package limit bounds what each app may start: a rate and a number of calls at once, over all
// executors together. Beside it lie a breaker for each endpoint and a picker among priorities.
//
// # How it works
//
// Limiter is each executor's part of it, in memory: Start answers at once, from permits that were
// fetched before. Ledger is what all executors share (memory or Redis): Exchange carries the wishes
// for all apps in one round trip, at most every 10 ms, and brings permits for the next tenth of a
// second. There is never a round trip for a fire, and none for an app without limits.
//
// # Promises (the suite is limittest)
//
//   - L1 In any stretch of time an app starts at most rate × (time + TokenTTL) + burst calls, over
//     all executors, while the ledger answers.
//   - L2 At most so many calls of an app run at once, over all executors, while the ledger answers.
//     What an executor held that died comes back after SlotTTL.
//   - L3 What is scarce is shared: each executor that wishes gets an even part of the calls at
//     once, as far as it wishes. Where there are fewer than executors that wish, each has its turn.
//   - L4 What cannot start now waits in the wait list of its app, or, where that is expected to
//     take longer than its Hold, gets a retry-after time (Decision.At), spread so that as many come
//     back as can start. That is an estimate and no permit: who comes back asks again, as Returned,
//     and goes before what is new of its priority. The wait list is the only place that orders what
//     waits, when permits come: one Picker says whose turn it is. Of an app with a rate it is in
//     the ledger, for all executors together; else, and while the ledger is away, each executor has
//     its own. Of any 42 starts of an app with a rate in a row each priority has its share by
//     weight, one more or less, while it has something waiting; each comes back early enough for
//     that while Hold is a few seconds.
//   - L5 New settings hold as soon as they are set, for the wait list, too; what has a retry-after
//     time asks when that comes, or sooner where its executor hastens it, as it does when they were
//     raised.
//   - L6 While the ledger is away each executor takes the limits divided by the executors that were
//     last seen, and one call at least.
package limit
