package sqlstore

import (
	"context"
	"database/sql"
	"errors"

	"github.com/jmoiron/sqlx"

	"github.com/carillon-timer/carillon/libs/store"
)

// EndSignIns writes one row and the entry of the audit trail in one transaction, so a call that dies
// halfway leaves neither. Of two calls at once, the second waits for the row of the first and writes
// a later instant. On nodes that share no locks its commit is refused and repeated. A call that is
// repeated after a lost answer moves the instant on: it ends what began meanwhile, too.
func (s *Store) EndSignIns(
	ctx context.Context,
	issuer, subject string,
) (beforeMS int64, err error) {
	if err := store.CheckPerson(issuer, subject); err != nil {
		return 0, err //nolint:wrapcheck // it names the argument
	}
	ctx, _, err = s.makeApps(ctx, []string{""}) // entries of the deployment belong to this app
	if err != nil {
		return 0, err
	}
	err = s.write(ctx, "ending a person's sessions", func(ctx context.Context, c runner) error {
		deployment, err := s.selectApp(ctx, c, "", "")
		if err != nil {
			return err
		}
		nowMS, err := s.nowMS(ctx, c)
		if err != nil {
			return err
		}
		d := s.dialect
		insert := stmt("INSERT INTO ended_sign_ins (issuer,subject,before_ms) VALUES (").
			bind(issuer).add(",").bind(subject).add(",").
			int(nowMS + store.SignInMargin.Milliseconds()).
			add(")" + d.onConflictUpdate("issuer,subject") +
				"before_ms=" + d.greatest + "(ended_sign_ins.before_ms+1," + d.value("before_ms") + ")")
		if _, err := s.exec(ctx, c, insert); err != nil {
			return err
		}
		if err := s.selectOne(ctx, c, &beforeMS, selectEndedSignIns(issuer, subject)); err != nil {
			return err
		}
		e, err := store.AuditSignInsEnded(issuer, subject, beforeMS)
		return s.auditOne(ctx, c, deployment.ID, nowMS, e, err)
	})
	return beforeMS, err
}

// SignInsEnded reads one row by its key.
func (s *Store) SignInsEnded(
	ctx context.Context,
	issuer, subject string,
) (beforeMS int64, err error) {
	err = s.read(
		ctx,
		"reading whether a person's sessions are ended",
		func(ctx context.Context, c sqlx.QueryerContext) error {
			beforeMS = 0
			err := s.selectOne(ctx, c, &beforeMS, selectEndedSignIns(issuer, subject))
			if errors.Is(err, sql.ErrNoRows) {
				return nil
			}
			return err
		},
	)
	return beforeMS, err
}

func selectEndedSignIns(issuer, subject string) *statement {
	return stmt("SELECT before_ms FROM ended_sign_ins WHERE issuer=").bind(issuer).
		add(" AND subject=").bind(subject)
}
