package fires

import (
	"context"
	"errors"
	"slices"

	"github.com/jmoiron/sqlx"

	"github.com/carillon-timer/carillon/libs/store/sqlstore/engine"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/history"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/sqldb"
	"github.com/carillon-timer/carillon/libs/timer"
)

// errNotAllOwned rolls back the fast path of Record: the session did not own some of the fires.
var errNotAllOwned = errors.New("the session does not own all fires")

// Record moves fires to the outcomes in one transaction. The hot path is one DELETE by primary key
// and owner and, if all rows matched, one INSERT. Otherwise it rolls back, locks the rows that the
// session owns, and records those.
//
// Two sessions about one fire: one owns the row. The DELETE of the other matches nothing, and its
// result does not count. After a lost answer, the repeated call matches nothing, finds the outcomes
// under its own session and reports nothing lost.
//
// A batch that the database refuses for a value in it is cut in halves, each in a transaction of
// its own, until the bad outcome is found. That one is recorded without details: a fire without an
// outcome would be called again and again.
//
// recordLinked handles outcomes that free a slot, have a successor or count for one version only,
// in a transaction of their own.
func (s *Fires) Record(
	ctx context.Context, session timer.ID, outcomes []timer.Outcome, attempts []timer.Attempt,
) (lost []timer.FireID, started []timer.Fire, err error) {
	outcomes = slices.Clone(outcomes)
	slices.SortStableFunc(
		outcomes,
		func(a, b timer.Outcome) int { return timer.CompareFires(a.Fire, b.Fire) },
	)
	outcomes = slices.CompactFunc(
		outcomes,
		func(a, b timer.Outcome) bool { return a.FireID == b.FireID },
	)
	var links []timer.Outcome
	for i := range outcomes {
		outcomes[i].Owner = session
		if linked(&outcomes[i]) {
			links = append(links, outcomes[i])
		}
	}
	plain := slices.DeleteFunc(outcomes, func(o timer.Outcome) bool { return linked(&o) })
	if lost, _, err = s.recordBisecting(
		ctx,
		session,
		plain,
		attempts,
		s.record,
	); err != nil ||
		len(links) == 0 {
		return lost, nil, err
	}
	more, started, err := s.recordBisecting(ctx, session, links, attempts, s.fires.recordLinked)
	if err != nil {
		return nil, started, err
	}
	return append(lost, more...), started, nil
}

func linked(o *timer.Outcome) bool {
	return o.Serial || o.Next != nil || o.Uncounted || o.Reason == timer.ReasonSuperseded
}

// recordFunc records outcomes of one session. They are sorted and distinct.
type recordFunc func(ctx context.Context, session timer.ID, outcomes []timer.Outcome, attempts []timer.Attempt) (
	lost []timer.FireID, started []timer.Fire, err error)

func (s *Fires) recordBisecting(
	ctx context.Context,
	session timer.ID,
	outcomes []timer.Outcome,
	attempts []timer.Attempt,
	record recordFunc,
) ([]timer.FireID, []timer.Fire, error) {
	if len(outcomes) == 0 {
		return nil, nil, nil
	}
	lost, started, err := record(ctx, session, outcomes, attempts)
	if s.db.Dialect.ClassOf(err) != engine.ClassData {
		return lost, started, err
	}
	if len(outcomes) == 1 {
		o := outcomes[0]
		s.db.Log.Error().
			Err(err).
			Stringer("fire", o.FireID).
			Msg("outcome refused, recorded without details")
		return record(ctx, session, []timer.Outcome{withoutDetails(o)}, nil)
	}
	half := len(outcomes) / 2
	lost, started, err = s.recordBisecting(ctx, session, outcomes[:half], attempts, record)
	if err != nil {
		return nil, started, err
	}
	more, others, err := s.recordBisecting(ctx, session, outcomes[half:], attempts, record)
	return append(lost, more...), append(started, others...), err
}

// withoutDetails returns the parts of an outcome that the database cannot refuse.
func withoutDetails(o timer.Outcome) timer.Outcome {
	return timer.Outcome{
		Fire: timer.Fire{
			FireID:  o.FireID,
			RunAtMS: o.RunAtMS,
			AppID:   o.AppID,
			Version: o.Version,
			Epoch:   o.Epoch,
			Rev:     o.Rev,
			Owner:   o.Owner,
		},
		Kind: timer.OutcomeKind(
			sqldb.ASCII(string(o.Kind), history.MaxKind),
		),
		Reason:     timer.Reason(sqldb.ASCII(string(o.Reason), history.MaxReason)),
		FinishedMS: o.FinishedMS,
		UntilMS:    o.DueMS,
		Count:      1,
		Serial:     o.Serial,
		Next:       o.Next,
		Uncounted:  o.Uncounted,
	}
}

// record is one transaction, or two if the fast one was rolled back.
func (s *Fires) record(
	ctx context.Context, session timer.ID, outcomes []timer.Outcome, attempts []timer.Attempt,
) (lost []timer.FireID, started []timer.Fire, err error) {
	attempts = history.AttemptsOf(attempts, history.FiresOf(outcomes))
	err = s.db.Write(ctx, "recording outcomes", func(ctx context.Context, c sqldb.Runner) error {
		n, err := s.deleteOwned(ctx, c, session, outcomes)
		if err != nil {
			return err
		}
		if n != len(outcomes) {
			return errNotAllOwned
		}
		return s.history.InsertOutcomes(ctx, c, outcomes, attempts)
	})
	if errors.Is(err, errNotAllOwned) {
		lost, err = s.recordSlowly(ctx, session, outcomes, attempts)
	}
	return lost, nil, err
}

func (s *Fires) recordSlowly(
	ctx context.Context, session timer.ID, outcomes []timer.Outcome, attempts []timer.Attempt,
) (lost []timer.FireID, err error) {
	var rest []timer.FireID
	err = s.db.Write(ctx, "recording outcomes", func(ctx context.Context, c sqldb.Runner) error {
		var mine []timer.Outcome
		rest = nil
		for part := range sqldb.Batches(outcomes) {
			rows, err := s.lockOwned(ctx, c, session, sqldb.IDsOf(history.FiresOf(part)))
			if err != nil {
				return err
			}
			owned := make(map[timer.FireID]bool, len(rows))
			for _, r := range rows {
				owned[r.FireID] = true
			}
			for _, o := range part {
				if owned[o.FireID] {
					mine = append(mine, o)
				} else {
					rest = append(rest, o.FireID)
				}
			}
		}
		if _, err := s.deleteOwned(ctx, c, session, mine); err != nil {
			return err
		}
		return s.history.InsertOutcomes(
			ctx,
			c,
			mine,
			history.AttemptsOf(attempts, history.FiresOf(mine)),
		)
	})
	if err != nil {
		return nil, err
	}
	return s.notRecordedBy(ctx, session, rest)
}

func (s *Fires) deleteOwned(
	ctx context.Context,
	c sqldb.Runner,
	session timer.ID,
	outcomes []timer.Outcome,
) (int, error) {
	total := 0
	for part := range sqldb.Batches(outcomes) {
		q := sqldb.Stmt(
			s.db.Dialect.DeleteFrom("fires", "PRIMARY")+" WHERE ",
		).FiresPrepared(s.db.Dialect, sqldb.IDsOf(history.FiresOf(part))).
			Add(" AND owner=").
			Int(int64(session))
		n, err := s.db.Exec(ctx, c, q)
		if err != nil {
			return 0, err
		}
		total += int(n)
	}
	return total, nil
}

// notRecordedBy returns the fires without an outcome of this session. Their results do not count.
func (s *Fires) notRecordedBy(
	ctx context.Context,
	session timer.ID,
	ids []timer.FireID,
) ([]timer.FireID, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	var mine map[timer.FireID]bool
	err := s.db.Read(
		ctx,
		"reading outcomes",
		func(ctx context.Context, c sqlx.QueryerContext) (err error) {
			mine, err = s.history.FinishedBy(ctx, c, ids, session)
			return err
		},
	)
	return slices.DeleteFunc(ids, func(id timer.FireID) bool { return mine[id] }), err
}
