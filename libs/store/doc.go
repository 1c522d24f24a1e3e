// Package store is the contract of the truth: apps, timers, fires, claims, sessions, slices,
// outcomes. Package sqlstore keeps it on MySQL (or MariaDB) and on SQLite, and package storetest
// holds the suite that both pass.
//
// All methods are batch-first. "Now" is the store's own clock unless a parameter says otherwise.
// Every method that writes is one transaction: all of it or nothing, committed and durable when it
// returns nil. When it returns an error of code unavailable the transaction may or may not have
// been applied; each method says what repeating it does. Every method may be called by any number
// of processes at once.
//
// # Promises
//
// Timers:
//   - S1 A live timer's (app, name) is unique; of any number of concurrent creates one wins, and
//     the others learn its id and whether its definition is the same. A deleted timer's name is
//     free at once.
//   - S2 Create and SetStatus insert what the planner makes in the same transaction; nothing of a
//     refused item is written. Every instant at which a timer was active has its fire from the end
//     of that activation on, at the latest.
//   - S3 Activation counts: each inactive → active adds 1 to the epoch and sets active_since;
//     setting the status that a timer already has changes nothing and is no error. From and
//     IfVersion are judged with the row locked.
//   - S4 Every change of status is in the change log with a sequence that Changes returns; a reader
//     who overlaps by 10 s misses none, also of a transaction that committed late.
//   - S5 Idempotency: a repeated key of an app returns the first answer; with another content it is
//     a conflict. Once keeps the value that came first under a key of an app, of any number of
//     calls at once.
//
// Expansion:
//   - S6 Two calls of Expand at once never take the same timer; a timer's fires of series 0 are
//     inserted once each, next_due never moves back, and fires_created is exact.
//   - S7 A planner that fails for one timer (error in its Plan) postpones that timer and stops no
//     other.
//
// Minutes and slices:
//   - S8 A minute's count of buckets only grows, and not after it is frozen; Freeze returns the
//     final count and is idempotent.
//   - S9 ClaimSlices gives a slice to one caller at a time: only undone ones whose lease has run
//     out, with a token greater than any before.
//   - S10 AcquireSlice, RenewSlices and FinishSlice act only with the latest token (renew: and for the
//     holder); with a stale one they change no row and say so. A finished slice is never claimed
//     again.
//   - S11 The cursor never moves back and passes only minutes whose slices are all done.
//
// Fires:
//   - S12 Of any number of concurrent claims of one fire exactly one wins, unless the owner's
//     session is dead, when exactly one more does. A claim with a stale revision wins nothing.
//     Repeating a claim after an unknown result wins what it had won.
//   - S13 Release, RecordAttempts and Record act only on fires that the session owns; on others
//     they change nothing and say so.
//   - S14 Record removes the open fire and adds the outcome in one transaction: every fire has
//     exactly one outcome, and repeating Record after an unknown result adds no second one.
//   - S15 Overdue returns every open fire past its run that no living session owns, with no lower
//     bound in time, as often as its sweeps allow; LoadSlice every open, unclaimed fire of a slice.
//
// Sessions:
//   - S16 A session is live until it is ended, and dead for ever then: no renewal matches it.
//   - S17 ExpireSession ends a session only while its renewal number is the one that the caller
//     saw.
//
// History:
//   - S18 Retention removes outcomes and attempts finished before the bound, and nothing else.
//
// Versions and policies:
//   - S19 A version never changes. An edit makes the next one; definition, version_ms and log entry
//     come in one transaction.
//   - S20 Planning anew (an edit of an active timer whose schedule, misfire or calendars differ, an
//     activation or an Expand with Replan set): what came due up to now and was not expanded is
//     expanded by the old version first (edit only). Then the plan from now + 1 ms on decides, in
//     the same transaction: of its fires, those that are open of an older version are moved to the
//     new one (version and epoch; run, bucket and revision too where nobody owns them and the run
//     differs), those that have an outcome are left out, the others are inserted. Open fires of the
//     old version that the plan does not have stay as they are, for the executor to skip, and are
//     moved like that should a later expansion come to them. So no due instant of the new version
//     is without fire or outcome, and none has two. fires_created counts what the new plan made in
//     place of what the old one had made beyond now. An edit that leaves the schedule and the
//     misfire policy as they are plans nothing anew and leaves the rows of open fires as they are,
//     whatever their version, but for the priority, which is in them; State.PlanVersion stays, and
//     by it and VersionAt those due later than now are called by the new version, which Release and
//     RecordAttempts give to the row, unless that has a later one. Every other edit, and a changed
//     calendar, moves PlanVersion to its version. Where the timer is not active, an edit that
//     changes the schedule takes back what is expanded beyond now and sets Replan. A changed
//     calendar, or time zone (S31), makes a new version with the same definition if anything is
//     expanded beyond now, with its log entry: by it executors tell the open fires that the new
//     plan does not have.
//   - S21 Freezing an app is in the change log like a change of status, once for the app, and in
//     the states of its timers.
//   - S22 Of the fires of a timer with a concurrency other than allow, at most one has the turn,
//     from Enter until its outcome is recorded (outcome with Serial), whichever session owns it;
//     Enter repeated by its owner says now again. Recording hands the turn to the first that waits,
//     in order of due, and releases that for dispatch in the same transaction. So does cancelling a
//     backfill with what it ends. A turn whose fire is neither open nor waiting any more is free.
//     skip: SlotSkipped while another has it. queue_one, queue_all: SlotQueued (state waiting, run
//     as asked, revision up, no owner) up to one, or MaxQueue, else SlotQueueFull. cancel_previous:
//     the later due takes the turn, with a log entry, and the one that had it gets SlotReplaced
//     when it asks again; an earlier due than the one that has the turn gets SlotReplaced.
//   - S23 CatchUp: per timer one fire at a time is the catch-up: it covers every due instant up to
//     its ToMS. A fire covered by another's is told not to run; the one that covers is told to run
//     however often it asks; one that is not covered becomes the next.
//   - S24 Record inserts Next with the outcome, if the timer is active in Next's epoch and version,
//     or in a later version that an edit made which left the schedule as it is (then Next has
//     that), and max_fires allows, once; and counts it in fires_created. An outcome that is
//     Uncounted takes one off fires_created, once, and has an active timer expanded at once. An
//     outcome whose Reason is superseded counts only where the row still has the outcome's version
//     and epoch; else it is reported as lost.
//
// Delivery:
//   - S25 Complete ends a fire or gives it back as returned, only in state accepted, unowned or
//     not, at the attempt named; with its outcome come the turn and the next fire of a chain as
//     with Record (the store finds out itself whether a turn is to be handed on; Next of a fixed
//     delay is the caller's plan, as in Record). Of a Complete and the timeout's claim at once one
//     wins.
//   - S26 Every outcome carries the session that recorded it, those written by others (a skipped
//     stretch, a completion, a cancelled backfill) carry session 1 (SystemSession). Whoever
//     publishes announces by position; what a session that ended had not announced, a scheduler
//     announces. So each is announced at least once while the bus is back within the hour. What
//     became of each of several targets is told by TargetAttempts, which are there as soon as the
//     outcome is.
//   - S27 A definition's hash is that of its stored form, sealed text included: sealing is
//     deterministic (package sealing), so under one first key the same secrets make the same hash.
//     Behind a new first key they do not, and a create of the same definition is a conflict, an
//     edit a new version, until Reseal has rewritten the stored text; it rewrites the hash with it,
//     and from then on the two are the same again. That is the one change that a version undergoes.
//   - S28 States, App, AppsByID and Changes tell a new setting, freeze or key within one look; the
//     change log has one entry for the app.
//   - S29 Inactivities has each stretch in which a timer was not active after its first activation:
//     from the change of its status, inclusive, until the activation, exclusive. Pausing, changing
//     a pause and deactivating begin a stretch each, so they follow one another without a gap. A
//     pause with an end is over at that end, and active_since is that instant, whether Expand
//     notices it or a later change of the timer does; what came due since is planned as for an
//     active timer. Retention removes stretches that ended before it.
//   - S30 Defer makes an open fire nobody's, with the run given, while its timer is not active, and
//     the next activation, or the deletion, gives it its run back for dispatch. One that was
//     claimed since is left to whoever did so. Of a Defer and an activation at once the later one
//     sees the other: no fire is left waiting for a timer that is active.
//
// Time zones:
//   - S31 The store knows by which rules of time zones its timers may have been planned: those of
//     every process that registered. ReplanZones sets Replan, as a changed calendar does, on the
//     timers that depend on a zone in which any of these rules differ from the process's own, and
//     on no others. Only a process whose rules are the latest (by version, then by hash) of all
//     live processes does so. A walk through all timers during which no live process had other
//     rules makes the store forget those; a walk during which one had is done once more when the
//     last migrator of them is gone, and once more when the last of them is. Two processes at once
//     share a walk, and one that dies leaves it to the others. So whoever expands a timer
//     meanwhile, in the end it is planned by the rules that are left, and no two processes mark a
//     timer back and forth.
//
// Order of late fires:
//   - S32 OpenAmong returns those of the fires that are open. A fire of a timer's schedule comes
//     into being after those that are due before it, but where an edit, a changed calendar or time
//     zone plans anew what is still to come. Begin writes FirstLatenessMS of fires that the session owns and
//     nobody has attempted, and nothing else.
package store
