// Package timer is the domain of Carillon: timers, their schedules and targets, fires, attempts and
// outcomes. It imports only the standard library, and every other package may import it.
//
// # Glossary (one word per idea, in Go, SQL, proto, topics, metrics and docs)
//
//   - timer: a definition that an app registered. Its versions are immutable.
//   - app: the tenant that owns a timer.
//   - fire: one due instant of one timer. Its identity is timer id + due + series.
//   - due: the nominal instant of a fire, in Unix milliseconds UTC. It never moves.
//   - series: 0 for fires of the schedule, else the id of a run-now, backfill or redrive.
//   - run time (run_at_ms): when the fire is next dispatched. It is the planned instant at first,
//     then the time of a retry or the end of a deferral.
//   - planned instant: due plus the timer's jitter.
//   - revision: counts how often a fire was released for dispatch. A task of an older revision
//     cannot claim the fire.
//   - open: a fire without an outcome.
//   - misfired: a fire later than the grace of its misfire policy.
//   - window: the fires of the next hour or two in Redis (or memory). The store can rebuild it.
//   - window entry: the copy of a fire in the window.
//   - slice: one minute of run time × one bucket.
//   - expansion: creating the fires of a schedule for a period of time.
//   - session: an executor or scheduler that proves it is alive by renewing a row in the store.
//   - claim: a session's ownership of an open fire.
//   - attempt: one callback call.
//   - outcome: the final result of a fire: delivered, failed or skipped(reason).
//   - lateness: the start of the callback minus the planned instant.
//   - dispatch lead: how long before their run time tasks are published.
//   - expand-ahead: how far ahead the migrator expands schedules.
//   - task: the message that tells executors about one fire.
package timer
