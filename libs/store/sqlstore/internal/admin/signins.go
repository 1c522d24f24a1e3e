package admin

import (
	"context"
	"database/sql"
	"errors"

	"github.com/jmoiron/sqlx"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/sqldb"
)

// EndSignIns writes one row and the entry of the audit trail in one transaction, so a call that dies
// halfway leaves neither. Of two calls at once, the second waits for the row of the first and writes
// a later instant. On nodes that share no locks its commit is refused and repeated. A call that is
// repeated after a lost answer moves the instant on: it ends what began meanwhile, too.
func (s *Admin) EndSignIns(
	ctx context.Context,
	issuer, subject string,
) (beforeMS int64, err error) {
	if err := store.CheckPerson(issuer, subject); err != nil {
		return 0, err //nolint:wrapcheck // it names the argument
	}
	ctx, _, err = s.apps.Make(ctx, []string{""}) // entries of the deployment belong to this app
	if err != nil {
		return 0, err
	}
	err = s.db.Write(
		ctx,
		"ending a person's sessions",
		func(ctx context.Context, c sqldb.Runner) error {
			deployment, err := s.apps.Select(ctx, c, "", "")
			if err != nil {
				return err
			}
			nowMS, err := s.db.NowMS(ctx, c)
			if err != nil {
				return err
			}
			d := s.db.Dialect
			insert := sqldb.Stmt("INSERT INTO ended_sign_ins (issuer,subject,before_ms) VALUES (").
				Bind(issuer).Add(",").Bind(subject).Add(",").
				Int(nowMS + store.SignInMargin.Milliseconds()).
				Add(")" + d.OnConflictUpdate("issuer,subject") +
					"before_ms=" + d.Greatest + "(ended_sign_ins.before_ms+1," + d.Value("before_ms") + ")")
			if _, err := s.db.Exec(ctx, c, insert); err != nil {
				return err
			}
			if err := s.db.SelectOne(
				ctx,
				c,
				&beforeMS,
				selectEndedSignIns(issuer, subject),
			); err != nil {
				return err
			}
			e, err := store.AuditSignInsEnded(issuer, subject, beforeMS)
			return s.audit.Add(ctx, c, deployment.ID, nowMS, e, err)
		},
	)
	return beforeMS, err
}

// SignInsEnded reads one row by its key.
func (s *Admin) SignInsEnded(
	ctx context.Context,
	issuer, subject string,
) (beforeMS int64, err error) {
	err = s.db.Read(
		ctx,
		"reading whether a person's sessions are ended",
		func(ctx context.Context, c sqlx.QueryerContext) error {
			beforeMS = 0
			err := s.db.SelectOne(ctx, c, &beforeMS, selectEndedSignIns(issuer, subject))
			if errors.Is(err, sql.ErrNoRows) {
				return nil
			}
			return err
		},
	)
	return beforeMS, err
}

func selectEndedSignIns(issuer, subject string) *sqldb.Statement {
	return sqldb.Stmt("SELECT before_ms FROM ended_sign_ins WHERE issuer=").Bind(issuer).
		Add(" AND subject=").Bind(subject)
}
