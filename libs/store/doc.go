// Package store is the contract of the database: apps, timers, fires, claims, sessions, slices and
// outcomes. Package sqlstore implements it on MySQL (or MariaDB) and on SQLite, package memstore in
// memory. Package storetest has the suite that all of them pass.
//
// All methods take batches. "Now" is the store's own clock, unless a parameter says otherwise. A
// method that writes is one transaction. When it returns nil, the transaction is committed and
// durable. When it returns an error of code unavailable, the transaction may or may not be applied;
// each method says what a repetition does. Any number of processes may call any method at once.
//
// # Terms
//
// A planner is the caller's function that plans the fires of a schedule. The versions of a definition
// are numbered from 1 on. SystemSession stands for the store itself, where a session is named.
//
// A fire is open until it has an outcome. Its due instant never changes. Its run_at is when it is
// to be called next. A session owns the fires that it has claimed. A transaction puts nothing into
// the window: the caller does this with the fires that a method returns.
//
// # Promises
//
// Timers:
//   - S1 The (app, name) of a timer that is not deleted is unique. Of any number of creates at
//     once, one wins. The others learn its id and whether its definition is the same. The name of a
//     deleted timer is free at once. The timer keeps the origin of the create that won, which is no
//     part of its definition.
//   - S2 Create and SetStatus insert what the planner returns in the same transaction. They write
//     nothing of a refused item, and it makes no other one fail. Every instant at which a timer was
//     active has its fire when that activation ends, at the latest.
//   - S3 Each change from inactive to active adds 1 to the epoch and sets active_since. Setting the
//     present status again changes nothing and is no error. From and IfVersion are checked with the
//     row locked.
//   - S4 Every change of status is in the change log, with a sequence that Changes returns. A
//     reader that overlaps its reads by 10 s misses none, even of a transaction that committed
//     late. PurgeExpired removes an entry only if a later one is older than an hour. So a reader
//     that read the log less than an hour ago finds the entry again that was the last one then.
//   - S5 A repeated idempotency key of an app returns the first answer. With another request it is
//     a conflict. PutIfAbsent keeps the hash and the value that were stored first under a key of an
//     app, for any number of calls at once.
//
// Expansion:
//   - S6 Two calls of Expand at once never take the same timer. Each fire of series 0 is inserted
//     once, next_due never moves back, and fires_created is exact.
//   - S7 If the planner fails for one timer (an error in its Plan), that timer is postponed and no
//     other is affected.
//
// Minutes and slices:
//   - S8 A minute's number of buckets only grows, and not after it is frozen. FreezeMinute returns
//     the final number and may be repeated.
//   - S9 ClaimSlices gives the lease of a slice to one caller at a time. It takes only slices that
//     are not done and whose lease has expired, with a token greater than any before.
//   - S10 AcquireSlice, RenewSlices and FinishSlice act only with the latest token, RenewSlices
//     only for the holder. With an older token they change no row and say so. A finished slice is
//     never claimed again.
//   - S11 The cursor never moves back. It passes only minutes whose slices are all done.
//
// Fires:
//   - S12 Of any number of claims of one fire at once, exactly one wins. If the owner's session
//     expires, exactly one more wins. A claim with an old revision wins nothing. A claim repeated
//     after an unknown result wins what it had won.
//   - S13 Release, RecordAttempts and Record act only on fires that the session owns. They change
//     nothing about others and say so.
//   - S14 Record removes the open fire and adds the outcome in one transaction. Every fire has
//     exactly one outcome. A Record repeated after an unknown result adds no second one.
//   - S15 Calls of Overdue return every overdue open fire without an alive owner, however old.
//     LoadSlice returns every open, unclaimed fire of a slice.
//
// Sessions:
//   - S16 A session is alive until it is ended. After that no renewal matches it. It counts its
//     renewals from the number that it was opened with. An id that is taken opens no session.
//   - S17 ExpireSession ends a session only while it has the number of renewals that the caller
//     saw.
//
// History:
//   - S18 Retention removes outcomes and attempts that finished before the bound, and nothing else.
//     PurgedBefore knows the latest bound, also after the retention was raised.
//     PurgeTimers removes a timer with all that belongs to it, or nothing of it. A fire or backfill
//     that a call has returned keeps its timer, also if both calls ran at once.
//
// Versions and policies:
//   - S19 A version never changes. An edit creates the next one. Its definition, version_ms and log
//     entry are written in one transaction. An edit with Deactivate makes the timer inactive first,
//     in the same transaction, so no fire of the new version is planned. It does both or neither.
//     An edit whose Check returns an error writes nothing.
//   - S20 A replan happens after an edit of an active timer that changes schedule, misfire policy
//     or calendars, and after an activation or an Expand with Replan set. It is one transaction,
//     except for an edit of many fires (S33). On an edit, the old version first expands what came
//     due up to now. The new plan then decides from now + 1 ms on:
//     – Its fires that are open with an older version get the new version and epoch. If nobody owns
//     such a fire and its run_at differs, it also gets a new run_at, bucket and revision.
//     – Its fires that have an outcome are left out.
//     – Its other fires are inserted.
//     – Open fires of the old version that the new plan does not have stay, for executors to skip.
//     A later expansion that reaches them moves them to the new version.
//     So every due instant of the new version has a fire or an outcome, and none has two.
//     fires_created counts the fires of the new plan instead of those that the old one had beyond
//     now. An edit of a one-shot that has come due, and keeps its instant, replans nothing: it may
//     have been called.
//     An edit that moves a one-shot ends the fire of the old instant as superseded, also if that has
//     come due and was not called. While a session owns the fire, and once a due one had an attempt,
//     unless it is deferred, the edit is a conflict. If the one-shot is moved back before the instant is due, the outcome is
//     withdrawn and the fire is open again.
//     A changed calendar or time zone replans a one-shot without open fires only if it never had a
//     fire, and its instant is to come, or came since its timer was not active.
//     An edit that keeps schedule and misfire policy replans nothing. It changes only the priority
//     in the rows of open fires, and leaves State.PlanVersion, the version of the last replan, as
//     it is. An open fire of PlanVersion or a later one that is due after now is called by the new
//     version (VersionAt says which version that is). Release and RecordAttempts write it to the
//     row, unless the row has a later one. Every other edit, and a changed calendar, sets
//     PlanVersion to the new version.
//     If the timer is not active, an edit that changes the schedule takes back what is expanded
//     beyond now and sets Replan. A changed calendar or time zone (S31) creates a new version with
//     the same definition if anything is expanded beyond now, and logs it. Executors then can tell
//     which open fires the new plan does not have. The delay of a fixed delay goes on, as it does
//     after an edit of an active timer that keeps its every, start and calendars.
//   - S21 Freezing an app is in the change log like a change of status, once for the app, and in
//     the states of its timers.
//   - S22 Of the fires of a timer whose concurrency is not allow, at most one has the slot. It
//     keeps the slot from AcquireSlots until its outcome is recorded (an outcome with Serial),
//     whichever session owns it. AcquireSlots repeated by its owner returns SlotGranted again.
//     Recording gives the slot to the first fire in the queue, in order of due, and releases that
//     fire for dispatch in the same transaction. Cancelling a backfill does the same for the fires
//     that it finishes, and Defer for those that it defers before their first attempt. A slot is free
//     if its fire has an outcome. If another fire has the slot, a fire of a series other than 0 is
//     queued, however many there are. But while the timer is not active, it takes the slot of a fire
//     that waits between two attempts, except with cancel_previous; Defer lets the first one ask at
//     once. With cancel_previous it may take the slot of a fire of series 0. A fire of the schedule
//     that has begun and lost the slot is queued, too. About the others of the schedule the policy
//     decides:
//     – skip: SlotSkipped.
//     – queue_one, queue_all: SlotQueued, up to one fire of the schedule or MaxQueue, and
//     SlotQueueFull beyond. A queued fire has state waiting, the requested run_at, the next revision
//     and no owner.
//     – cancel_previous: a fire that is due later takes the slot, with a log entry. The one that
//     had it gets SlotReplaced when it asks again, if it was attempted also after the later one has
//     ended, whichever fire has or had the slot since; one of a series other than 0 waits for the slot
//     again. A fire that is due earlier gets SlotReplaced;
//     after the later one has ended, it gets the slot if it has not been attempted. The states have
//     the fire that had the slot last (LastRunning), so that a call is broken off even if the fire
//     that took its slot has ended before anybody has read the log.
//   - S23 CatchUp lets one late fire of a timer at a time be the stand-in. It stands for every fire
//     that was to run, by its due instant and jitter, up to its ToMS. A fire that another one
//     stands for is told not to run. The stand-in is told to run however often it asks. A fire that
//     none stands for becomes the next stand-in.
//   - S24 Record inserts Next with the outcome, once, and counts it in fires_created. An open fire
//     of that instant which an edit or an activation has left becomes Next, and counts once. If it
//     was ended as superseded before it is due, that outcome is withdrawn. The timer must be active
//     in the epoch and version of Next, and max_fires must allow it. A later version is fine if the
//     edits in between kept the schedule; Next then has that version. An Uncounted outcome takes
//     one off fires_created, once, and makes an active timer due for expansion. If an edit has
//     taken the fire back, it is off already. An activation of a fixed delay with max_fires ends
//     the unowned fire that the chain before it has ahead, which then does not count. An outcome
//     with Reason superseded is written only if the row still has its version and epoch, and the
//     fire is not Next of another outcome in the batch. Otherwise Record returns the fire as lost.
//
// Delivery:
//   - S25 Complete finishes or releases a fire only in state accepted and at the given attempt,
//     owned or not, and of several targets only for the one that accepted it. With the outcome, the
//     slot is passed on and Next is inserted as in Record. The store finds out itself whether there
//     is a slot to pass on. The caller plans Next, as in Record. Of a Complete and the claim after
//     the timeout at once, one wins.
//   - S26 Every outcome has the session that recorded it. Outcomes that the store records (skipped
//     stretches, completions, cancelled backfills) have SystemSession. Each session publishes its
//     outcomes in order of position. A scheduler publishes what an expired session had not
//     published. So each outcome is published at least once if the bus recovers within an hour. One
//     that is withdrawn (S20, S24) may have been published before, and its fire is then published
//     again with its later outcome.
//     TargetAttempts has the results of several targets as soon as the outcome exists.
//   - S27 The hash of a definition is that of its stored form, including encrypted text. Encryption
//     is deterministic (package encryption), so with one first key the same secrets have the same
//     hash. With a new first key they do not. A create of the same definition is then a conflict
//     and an edit creates a new version, until Reseal has rewritten definition and hash. This is
//     the only change to a version.
//   - S28 States, App, AppsByID and Changes return a new setting, freeze or key at once. The change
//     log has one entry for the app.
//   - S29 Inactivities returns each stretch in which a timer was not active after its first
//     activation: from the change of status, included, to the activation, excluded. Pausing,
//     changing a pause and deactivating each begin a stretch, so there are no gaps. A pause with an
//     end is over at that end, and active_since is that instant, whether Expand notices it or a
//     later change of the timer. What came due since is planned as for an active timer. Retention
//     removes stretches that ended before it, and before any open fire was due.
//   - S30 Defer releases an open fire with the given run_at while its timer is not active. The next
//     activation, or the deletion, restores its run_at for dispatch. A fire that was claimed
//     meanwhile is left to its owner. Of a Defer and an activation or deletion at once, the later
//     one sees the other, so no fire waits for a timer that is active or deleted.
//
// Time zones:
//   - S31 The store knows the rules of time zones by which timers may have been planned: those of
//     every registered process. ReplanZones sets Replan, like a changed calendar, on the timers
//     that depend on a zone in which these rules differ from the process's own, and on no others.
//     Only a process with the latest rules (by version, then by hash) of all alive processes does
//     so. If no alive process had other rules during a walk through all timers, the store deletes
//     other rules. Otherwise the walk is repeated when the last migrator with other rules is gone,
//     and again when the last process with other rules is gone. Two processes at once share a walk,
//     and the others continue the walk of one that dies. So in the end every timer is planned by
//     the remaining rules, and no two processes mark a timer back and forth. RenewProcess also
//     returns the settings of each alive process, and a name of the database that never changes and
//     no other database has, but one that was copied from it without a restore.
//
// Order of late fires:
//   - S32 OpenAmong returns those of the given fires that are open. A fire of a schedule is
//     inserted after all fires of its timer that are due before it, except for future fires after
//     an edit or a change of calendars or time zones. Begin writes FirstLatenessMS of fires that
//     the session owns and nobody has attempted, and nothing else.
//
// Follow-ups of edits:
//   - S33 An edit of a timer without max_fires touches a bounded number of fires. If more are open
//     beyond now, or the new plan has more, the edit itself decides about those of the next
//     seconds. ContinueReplans decides about the others as S20 says, page after page, up to the
//     last open fire of an older version. Each page is a transaction, and any process may do it.
//     Expand does so once the fires of the edit are used up. A page that is behind plans as of the
//     instant that was reached, so no instant of an open fire becomes part of a skipped stretch.
//     – A replan for a calendar or time zone, and its activation, plans a part at once. What open
//     fires of older versions that does not reach are left in the same way. With max_fires, more
//     parts are planned at once instead.
//     – Replanning returns the fires that are undecided. Until a fire is decided, an outcome with
//     Reason superseded is lost. Any other outcome counts.
//     – Another edit during the follow-up begins at its own now. It leaves one follow-up, up to the
//     last open fire of any older version.
//     – fires_created counts the fires that are decided. The follow-up of a timer that is not
//     active waits.
//     – A change of priority is done in the same way, except that it keeps State.PlanVersion.
//
// Searches:
//   - S34 Search finds timers by what is committed. Pages that are read one after the other have
//     each timer once that the filter selects and that nobody changes meanwhile, in the order of
//     the query. A timer that is changed is found by what it was or by what it is, if it is
//     selected by both. Count counts the timers that Search finds. A filter selects by the labels,
//     targets and name of the present version as soon as the create, edit or delete is committed.
//     Next due instants are those that NextDue returns. A call examines a bounded number of rows,
//     however many timers the app has. A page with more than MaxBodyBytes has one timer.
//
// Jobs:
//   - S35 Of two calls of LeaseJob at once, each gets another job. AdvanceJob writes only with the
//     latest token. The page of a job is written before its timers are changed. So a runner that
//     takes over changes the same timers as the one before, and each timer of a job is counted
//     once, wherever a runner dies. After CancelJob no lease of the job begins: if its runner dies
//     too, the timers of its last page are not counted. A job that this release cannot read, because
//     a newer one wrote it or it is damaged, stops no other: its Reason says so, and it can be listed
//     and cancelled. An app that is being deleted stays frozen and takes no timer, calendar, key or
//     setting: each such call comes before the mark, and the job finds what it wrote, or is a
//     conflict. The mark goes with the end of the job, in one transaction.
//
// App history:
//   - S36 Outcomes and CountOutcomes have the finished fires of an app in order of (finished, timer,
//     due, series), also those of deleted timers. Over all pages, each fire that was recorded before
//     the first page and matches is returned once. Neither examines more fires than ScanLimit, apart
//     from the rest of a millisecond when counting. A page that ends there has a Next, even if it is
//     empty. Counts are exact from FromMS on. An outcome is visible from its commit on, which may be
//     later than that of an outcome with a later position, see VisibilityDelay.
//
// The way of a fire:
//   - S37 Record keeps the Hops of an outcome, at most 13 bytes. An instant more than 24 days before
//     the end of the fire becomes unknown. A wait of more than MaxWaitedMS becomes that long. An open
//     fire keeps WaitingSinceMS and WaitedFor as Release, RecordAttempts, Defer and a queued request
//     for a slot wrote them, and a claim returns them. Outcomes that the store itself records have of
//     the Hops what the row tells. SessionsByID returns sessions for a day after their end.
//
// Dry runs:
//   - S38 A call that writes, with a context of WithDryRun, returns what it would return at that
//     instant, errors included, and writes nothing. It checks with the locks of the write, and
//     releases them. What several calls of a request would write does not add up: each sees what is
//     committed.
//
// Timers with metrics:
//   - S39 At most MaxMeteredTimers timers that are not deleted have metrics. A create or an edit
//     beyond that is refused, for any number of them at once. What is turned off or deleted makes
//     room for later calls.
//
// Audit trail:
//   - S40 A call that writes, with an actor, adds an entry for each resource that it changes, in its
//     transaction: there are both, or neither. Items have their own actor (By) or that of the
//     context. A call that changes nothing adds nothing, so one repeated after an unknown result
//     adds no second entry. Refused items and dry runs add none. A job keeps the actor of StartJob.
//     What Carillon does by itself, such as the end of a pause, adds none. A completion adds
//     one where it counts. AddAudit adds an entry about what changes nothing, once for each call.
//     AuditTrail has the entries by Seq, which is nearly the order of commits,
//     also those of deleted resources and of a deleted app. Pages that are read one after the other
//     have each entry once that was committed before the first and that is not purged. A call
//     examines at most ScanLimit entries, and a page that ends there has a Next, even if it is
//     empty. With Kind and Resource it examines only entries of that resource. PurgeAudit removes
//     entries that are older than the retention, and nothing else.
//
// Audit feed:
//   - S41 Of two calls of LeaseAuditFeed at once, at most one gets the feed, until its lease ends or
//     is released. A caller that goes on after its lease publishes entries that another publishes
//     too. The position never moves back. Over all calls of PendingAudit, each by the position of
//     the last entry that the one before returned, each entry that is not purged comes once, in
//     order, if the delay is AuditDelay.
//
// Sign-ins:
//   - S42 After EndSignIns, SignInsEnded returns its instant or a later one, for every caller. It
//     moves forward with each call, for any number of calls at once. Nothing removes it while a
//     session of MaxSignIn may have begun before it.
//
// Definitions that cannot be read:
//   - S44 A definition or calendar that this release cannot read, because a newer one wrote it or it
//     is damaged, stops only its own timers. Definitions, lists and searches mark such a timer as
//     Unreadable. It can be paused, deactivated, deleted and given another definition, and is
//     refused an activation. AddFires and Redrive insert its fires, with normal priority. The end of
//     its pause waits. What came due and was not expanded before such a change has no fire; an edit
//     leaves one record of misfires for it. A definition that is marked is never stored: an edit
//     with it is a conflict.
//
// Work of migrators:
//   - S43 DueWork names each of Expand, ContinueReplans, ExpandBackfills and LeaseJob that would
//     take something if nobody held it, and no other.
//
// # Files
//
//	store.go         the whole Store; timers, states, versions, the change log, expansion, minutes
//	edit.go          edits, apps, calendars, backfills; slots and stand-ins
//	inactivity.go    inactive stretches, and fires that wait for their timer
//	processes.go     the processes, and the rules of time zones by which they plan
//	putifabsent.go   values that only the first caller stores
//	fires.go         slices, open fires, claims, sessions, records, history, purges
//	delivery.go      completions, redrives, settings and keys of apps, resealing, outcome events
//	hops.go          the stored form of the way of a fire
//	apphistory.go    finished fires of an app
//	search.go        searches for timers
//	jobs.go          jobs that change many timers
//	audit.go         the audit trail and its feed
//	auditentries.go  what an entry of each kind has
//	signins.go       since when sign-ins of persons count
//	dryrun.go        marks calls as dry runs
//	sealed.go        definitions without their encrypted texts, to compare them
package store
