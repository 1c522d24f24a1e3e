// Package limit enforces the limits of each app: a rate of calls and a number of concurrent calls,
// across all executors. It also has a circuit breaker per endpoint and a weighted picker among
// priorities.
//
// # How it works
//
// Each executor has a Limiter in memory. Start answers at once, from permits fetched before. All
// executors share a SharedState (memory or Redis). Sync sends the demands of all apps in one round
// trip, at most every 10 ms, and returns permits for the next tenth of a second. No fire needs a
// round trip of its own, and apps without limits need none at all.
//
// A permit has a token (one start under the rate) if the app has a rate, and a call slot (one
// concurrent call) if its concurrent calls are limited. A waiting fire gets its permit when it may
// start. If its call starts later than PermitTTL after that, as in a stall of the store, the executor
// cancels the permit and asks again (Expired), once for each call. The slot of a timer with limited
// concurrency is something else: the store gives it (S22 of package store).
//
// # Promises (the suite is limittest)
//
//   - L1 Rate. In any period an app starts at most rate × (period + TokenTTL) + burst
//     calls, across all executors, while the shared state is available.
//   - L2 Concurrency. An app never has more concurrent calls than its limit, across all executors,
//     while the shared state is available. Call slots of a dead executor are free again after
//     SlotTTL.
//   - L3 Fairness among executors. Each executor with demand gets an even part of the call slots,
//     up to its demand. If there are fewer call slots than executors with demand, these take turns.
//   - L4 Order. Only the wait list orders waiting fires. When permits arrive, one Picker chooses
//     the priority. For an app with a rate the Picker is in the shared state, for all executors
//     together. Otherwise, and while the shared state is unavailable, each executor has its own. In
//     any 42 consecutive starts of an app with a rate, each priority has its weighted share, plus
//     or minus one, while it has waiting fires. Deferred fires return early enough for that if Hold
//     is a few seconds.
//   - L5 New settings apply at once, also to the wait list. A deferred fire asks again at its
//     retry-after time, or earlier if its executor advances it. Executors do that after limits were
//     raised, and for spare calls (L8).
//   - L6 Unavailability. While the shared state is unavailable for an app, each executor uses the
//     limits divided by the number of executors last known, but at least one call. For an app that
//     is new to the executor this is the largest number known of any. What it started before
//     counts. Calls of that time are not charged to the shared state, whose bucket fills meanwhile.
//     The shared state may be available for some apps only, whose limits hold as before.
//   - L7 Waiting. A fire that cannot start now waits in the wait list of its app. If that is
//     expected to take longer than its Hold, it gets a retry-after time instead (Decision.At).
//     Retry-after times are spread over the capacity. They are estimates, not permits: the fire
//     asks again, as Returned, and then goes before new fires of its priority. If the list has no
//     place for it then, it gets a time at which others leave one. So the fires of a long backlog
//     rarely ask, however many of them had to return at one time because MaxWait was over.
//   - L8 Revision. Estimates may turn out wrong, so Revise corrects them while fires wait. If calls of
//     an app may start sooner, it names how many of its deferred fires to ask again for (Spare). If
//     the fires of a wait list will wait much longer than their Hold, the last of them get a
//     retry-after time.
//
// # Files
//
// This package has the limits of one executor. The state over all executors is in packages
// redisstate and memstate.
//
//	limiter.go   the Limiter: starts a call, lets it wait, or says when to ask again
//	app.go       one app: refuses for lack of a token, and compares running calls with call slots
//	waitlist.go  the waiting fires of an app, in order
//	spare.go     corrects estimates: calls that may start sooner, fires that wait longer
//	fifo.go      a queue with returned items first
//	picker.go    chooses a priority by weight
//	sync.go      exchanges demands and permits with the shared state
//	outage.go    the apps for which the shared state is unavailable
//	meter.go     measures a rate
//	limit.go     settings, decisions and the interface of the shared state
//	breaker.go   circuit breakers of endpoints
//	metrics.go   its metrics
package limit
