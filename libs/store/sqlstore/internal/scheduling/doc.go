// Package scheduling has what plans fires: it creates, edits, activates, pauses and deletes timers,
// expands them and their backfills, and plans again what a change has taken back.
//
// Calls of the API:
//
//	create.go        creates timers, in batches
//	createlookup.go  which of them exist already, by name or key
//	auditcreate.go   the audit entries of creates
//	edit.go          writes a new version of a definition, and plans what it changes
//	status.go        changes of status: activate, pause, delete
//	backfills.go     starts, lists and cancels backfills
//	putifabsent.go   values that only the first caller stores
//
// Expansions:
//
//	expand.go          takes timers that are due for it
//	expansion.go       collects what an expansion of some timers changes, and writes nothing
//	flush.go           writes what an edit, activation or expansion has collected: inserts fires,
//	                   moves open ones to the new version, records skips
//	plan.go            checks a plan
//	ahead.go           fires of timers that are replanned, until their page comes
//	replan.go          replans timers after an edit, page by page
//	inactivity.go      when timers were inactive
//	backfillexpand.go  expands backfills
//	unreadable.go      postpones timers whose definition or calendar cannot be read
//	duework.go         which of these there are to do, and jobs
package scheduling

import (
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/apps"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/audit"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/calendars"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/fires"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/history"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/sqldb"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/timers"
	"github.com/carillon-timer/carillon/libs/timer"
)

// Scheduling changes timers and plans their fires.
type Scheduling struct {
	db      *sqldb.DB
	apps    *apps.Rows
	audit   *audit.Trail
	timers  *timers.Rows
	zones   *calendars.Zones
	history *history.Rows
	fires   *fires.Rows

	settings *Settings
}

// Settings may change before the store is used.
type Settings struct {
	IDs          *timer.IDs // ids of new timers
	MaxEditFires int        // most fires that an edit plans itself
}

// Nouns are what Scheduling writes besides timers.
type Nouns struct {
	Apps    *apps.Rows
	Audit   *audit.Trail
	Timers  *timers.Rows
	Zones   *calendars.Zones
	History *history.Rows
	Fires   *fires.Rows
}

// New returns the scheduling of a database.
func New(db *sqldb.DB, n *Nouns, s *Settings) *Scheduling {
	return &Scheduling{
		db:       db,
		apps:     n.Apps,
		audit:    n.Audit,
		timers:   n.Timers,
		zones:    n.Zones,
		history:  n.History,
		fires:    n.Fires,
		settings: s,
	}
}
