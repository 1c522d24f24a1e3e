package admin

import (
	"context"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/sqldb"
	"github.com/carillon-timer/carillon/libs/timer"
)

// SetFrozen locks the app's row, so of two calls at once the second sees the result of the first.
// It adds one entry about the app to the change log, in the same transaction. Repeating a call
// changes nothing more. A change of the reason alone is written and not logged. Of a freeze and the
// first write of an app at once, the freeze comes first and finds no app, or later and freezes it.
func (s *Admin) SetFrozen(
	ctx context.Context,
	name string,
	frozen bool,
	reason string,
) (app store.App, err error) {
	if reason = sqldb.Clip(reason, timer.MaxReasonLen); !frozen {
		reason = ""
	}
	err = s.db.Write(ctx, "freezing an app", func(ctx context.Context, c sqldb.Runner) error {
		row, err := s.apps.Lock(ctx, c, name)
		if err != nil {
			return err
		}
		if row.Deleting != 0 {
			return store.AppDeleted(name)
		}
		if row.Frozen == frozen && row.Reason == reason {
			app, err = row.App()
			return err
		}
		nowMS, err := s.db.NowMS(ctx, c)
		if err != nil {
			return err
		}
		changed := row.Frozen != frozen
		was := store.AppAudit{Frozen: row.Frozen, Reason: row.Reason}
		if row.Frozen, row.Reason = frozen, reason; changed {
			row.FrozenMS = nowMS * sqldb.Flag(frozen)
		}
		q := sqldb.Stmt("UPDATE apps SET frozen=").
			Int(sqldb.Flag(frozen)).
			Add(",freeze_reason=").
			Bind(reason).
			Add(",frozen_since_ms=").
			Int(row.FrozenMS).
			Add(" WHERE id=").
			Int(row.ID)
		if _, err := s.db.Exec(ctx, c, q); err != nil {
			return err
		}
		is := store.AppAudit{Frozen: frozen, Reason: reason}
		e, err := store.AuditFreezeSet(name, was, is)
		if err := s.audit.Add(ctx, c, row.ID, nowMS, e, err); err != nil {
			return err
		}
		if app, err = row.App(); err != nil || !changed {
			return err
		}
		return s.apps.LogChange(ctx, c, row.ID, nowMS)
	})
	return app, err
}
