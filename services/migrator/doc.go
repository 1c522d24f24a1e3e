// Package migrator moves timers' fires from their schedules into the store and the window: it
// expands what is due to be expanded, marks what it committed, and keeps the tables small. Any
// number of migrators work side by side: they skip each other's rows.
package migrator
