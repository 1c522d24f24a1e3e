package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"strconv"

	"github.com/jmoiron/sqlx"
)

// mysqlColumns reads the keys once. MariaDB would open every table again for each column.
const mysqlColumns = `SELECT c.TABLE_NAME AS tab,c.COLUMN_NAME AS col,LOWER(c.DATA_TYPE) AS type,` +
	`COALESCE(k.ORDINAL_POSITION,0) AS key_position FROM information_schema.COLUMNS c ` +
	`LEFT JOIN (SELECT TABLE_NAME,COLUMN_NAME,MIN(ORDINAL_POSITION) AS ORDINAL_POSITION ` +
	`FROM information_schema.KEY_COLUMN_USAGE ` +
	`WHERE TABLE_SCHEMA=DATABASE() AND CONSTRAINT_NAME='PRIMARY' GROUP BY TABLE_NAME,COLUMN_NAME) k ` +
	`ON k.TABLE_NAME=c.TABLE_NAME AND k.COLUMN_NAME=c.COLUMN_NAME ` +
	`WHERE c.TABLE_SCHEMA=DATABASE() ORDER BY c.TABLE_NAME,c.ORDINAL_POSITION`

const sqliteColumns = `SELECT m.name AS tab,p.name AS col,LOWER(p.type) AS type,p.pk AS key_position ` +
	`FROM sqlite_master m JOIN pragma_table_info(m.name) p WHERE m.type='table' ` +
	`AND m.name NOT LIKE 'sqlite%' ORDER BY m.name,p.cid`

// autoIncrement is where MySQL shows the next number of a table. The statistics of
// information_schema may be a day old.
var autoIncrement = regexp.MustCompile(`\bAUTO_INCREMENT=(\d+)`)

func mysqlNextNumber(
	ctx context.Context, s *DB, c sqlx.QueryerContext, table string,
) (int64, error) {
	var row struct {
		Table string `db:"Table"`
		Text  string `db:"Create Table"`
	}
	if err := s.SelectOne(ctx, c, &row, Stmt("SHOW CREATE TABLE "+table)); err != nil {
		return 0, err
	}
	m := autoIncrement.FindStringSubmatch(row.Text)
	if m == nil {
		return 0, nil
	}
	n, err := strconv.ParseInt(m[1], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("reading the next number of table %s: %w", table, err)
	}
	return n, nil
}

func sqliteNextNumber(
	ctx context.Context, s *DB, c sqlx.QueryerContext, table string,
) (next int64, err error) {
	q := Stmt("SELECT seq+1 FROM sqlite_sequence WHERE name=").Bind(table)
	err = s.SelectOne(ctx, c, &next, q)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	return next, err
}

// mysqlSetNextNumber keeps a later number, as the server does.
func mysqlSetNextNumber(table string, next int64) []*Statement {
	return []*Statement{Stmt("ALTER TABLE " + table + " AUTO_INCREMENT=").Int(next)}
}

// sqliteSetNextNumber keeps a later number.
func sqliteSetNextNumber(table string, next int64) []*Statement {
	return []*Statement{
		Stmt("INSERT INTO sqlite_sequence (name,seq) SELECT ").Bind(table).
			Add(",0 WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name=").
			Bind(table).Add(")"),
		Stmt("UPDATE sqlite_sequence SET seq=MAX(seq,").Int(next - 1).
			Add(") WHERE name=").Bind(table),
	}
}
