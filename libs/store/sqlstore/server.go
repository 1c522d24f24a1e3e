package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"strings"

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
		s.db.Engine.Reader(),
		&rows,
		sqldb.Stmt("SHOW VARIABLES WHERE Variable_name IN ('tx_isolation',"+
			"'transaction_isolation','sql_mode','innodb_flush_log_at_trx_commit','read_only')"),
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
	if v := have["innodb_flush_log_at_trx_commit"]; v != "1" {
		s.warnOnce.Do(func() {
			s.db.Log.Warn().Str("innodb_flush_log_at_trx_commit", v).
				Msg("the server does not flush each commit: it can lose accepted timers when its machine fails")
		})
	}
	return nil
}
