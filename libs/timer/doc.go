// Package timer is the domain of Carillon: timers, their schedules and targets, fires, attempts and
// outcomes. It imports the standard library only, and everything else imports it.
//
// # Glossary (one word per idea, in Go, SQL, proto, topics, metrics and docs)
//
//   - timer: a definition that an app registered; it has immutable versions.
//   - app: the tenant that owns a timer.
//   - fire: one due instant of one timer. Its identity is timer id + due + series.
//   - due: the nominal instant of a fire, unix milliseconds UTC. It never moves.
//   - series: 0 for fires of the schedule, else the id of a run-now, backfill or redrive.
//   - run: when the fire is next to be dispatched (run_at_ms): its planned instant at first, then
//     the deadline of its retry.
//   - revision: counts how often a fire was given back for dispatch; a task of an older revision
//     claims nothing.
//   - open: a fire without outcome.
//   - mark: the entry of a fire in the window.
//   - slice: one minute of run × one bucket.
//   - window: the tier of marked slices in Redis (or memory), rebuildable from the store.
//   - expansion: turning a schedule into fires for a stretch of time.
//   - session: a living executor or scheduler, proved by renewal in the store.
//   - claim: a session's ownership of an open fire.
//   - attempt: one callback try.
//   - outcome: the final result of a fire: delivered, failed or skipped(reason).
//   - lateness: start of the callback minus the planned instant.
//   - lead: how far ahead of their run tasks are published.
//   - step1: the farthest the migrator expands. step2: how often executors poll the change log.
//   - task: the message that tells executors of one fire.
package timer
