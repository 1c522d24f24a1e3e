package sqlstore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"

	"github.com/carillon-timer/carillon/libs/store/sqlstore/engine"
	"github.com/carillon-timer/carillon/libs/store/sqlstore/internal/sqldb"
)

// settings are server variables, as a connection of the pool sees them. The two servers have
// different names for the isolation level.
type settings struct {
	Name  string `db:"Variable_name"`
	Value string `db:"Value"`
}

// checkServer verifies the settings of a connection. With another isolation level or a lenient
// mode, promises would break silently. It only logs settings that cost durability or speed.
func (s *Store) checkServer(ctx context.Context) error {
	var rows []settings
	err := s.db.SelectAll(
		ctx,
		s.probe,
		&rows,
		sqldb.Stmt("SHOW VARIABLES WHERE Variable_name IN ('tx_isolation',"+
			"'transaction_isolation','sql_mode','innodb_flush_log_at_trx_commit','log_bin',"+
			"'sync_binlog')"),
	)
	if err != nil {
		return err
	}
	have := map[string]string{}
	for _, r := range rows {
		have[r.Name] = r.Value
	}
	isolation := have["transaction_isolation"]
	if isolation == "" {
		isolation = have["tx_isolation"]
	}
	if isolation != "READ-COMMITTED" {
		return fmt.Errorf("the isolation level is %s, not READ-COMMITTED", isolation)
	}
	if !strings.Contains(have["sql_mode"], "STRICT_ALL_TABLES") {
		return errors.New("the SQL mode is not strict")
	}
	if name, value := notFlushed(have); name != "" {
		s.warnOnce.Do(func() {
			s.db.Log.Warn().Str(name, value).
				Msg("the server does not flush each commit: it can lose accepted timers when its machine fails")
		})
	}
	return nil
}

// notFlushed returns the variable by which a server acknowledges commits before they are on disk, with
// its value; "" if it does not.
func notFlushed(have map[string]string) (name, value string) {
	names := []string{"innodb_flush_log_at_trx_commit"}
	if have["log_bin"] == "ON" {
		names = append(names, "sync_binlog")
	}
	for _, name := range names {
		if have[name] != "1" {
			return name, have[name]
		}
	}
	return "", ""
}

// CheckRights checks that the user may do with tables what migrations and services do, on a table of
// its own, which it drops. Any number of processes may run it at once. If it dies halfway, an empty
// table stays.
func (s *Store) CheckRights(ctx context.Context) error {
	table := "carillon_check_" + strings.ToLower(rand.Text())
	run := func(ctx context.Context, do string) error {
		err := s.db.Engine.Autocommit(ctx, func(ctx context.Context, c engine.Runner) error {
			_, err := c.ExecContext(ctx, do)
			return err //nolint:wrapcheck // below
		})
		if err != nil {
			what, _, _ := strings.Cut(do, " ")
			return s.db.Dialect.Translate(
				"the user needs all rights on the database, among them "+what, err)
		}
		return nil
	}
	if err := run(ctx, "CREATE TABLE "+table+" (id INT PRIMARY KEY)"); err != nil {
		return err
	}
	var failed error
	for _, do := range []string{
		"ALTER TABLE " + table + " ADD COLUMN n INT",
		"INSERT INTO " + table + " (id,n) VALUES (1,1)",
		"UPDATE " + table + " SET n=2",
		"DELETE FROM " + table,
	} {
		if failed = run(ctx, do); failed != nil {
			break
		}
	}
	ctx, cancel := s.db.Bounded(context.WithoutCancel(ctx)) // also after a timeout
	defer cancel()
	return errors.Join(failed, run(ctx, "DROP TABLE "+table))
}
