package load

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"

	_ "github.com/go-sql-driver/mysql" // the driver of the store

	"github.com/carillon-timer/carillon/libs/timer"
)

// maxCreatedStored is how many stored timers are created by the API where the database is MySQL.
// The rest are copies of their rows, because creating ten millions would take an hour.
const maxCreatedStored = 100_000

// phaseIDs are more ids than all copies of a phase span.
const phaseIDs = 1 << 40

// copyStored copies the rows of timers until there are at least n. The ids of the copies lie far
// below all that are created, and apart from those of other phases. A copy has no audit entry.
func (b *Bench) copyStored(ctx context.Context, ids []timer.ID, n int) error {
	if n <= len(ids) {
		return nil
	}
	db, err := sql.Open("mysql", b.Cluster.Servers().MySQLDSN)
	if err != nil {
		return fmt.Errorf("copying timers: %w", err)
	}
	defer db.Close()
	first, last := int64(slices.Min(ids)), int64(slices.Max(ids))
	tables := []*copiedTable{
		{name: "timers", id: "id", names: []string{"name", "live_name"}},
		{name: "timer_versions", id: "timer_id"},
		{name: "timer_attributes", id: "timer_id"},
	}
	for _, t := range tables {
		if t.columns, err = columnsOf(ctx, db, t.name); err != nil {
			return fmt.Errorf("copying timers: %w", err)
		}
	}
	for done, run := len(ids), int64(1); done < n; run++ {
		down := first/2 + int64(b.run)*phaseIDs + run*(last-first+1)
		for _, t := range tables {
			prefix := fmt.Sprintf("%d-%d-", b.run, run)
			if _, err := db.ExecContext(ctx, t.copyRows(first, last, down, prefix)); err != nil {
				return fmt.Errorf("copying timers: %w", err)
			}
		}
		if done += len(ids); run%10 == 0 || done >= n {
			fmt.Fprintf(b.Log, "%s: %d of %d timers stored\n", b.Cluster.Name(), done, n)
		}
	}
	return nil
}

// copiedTable is a table with rows of timers. id is the column of the timer's id, and names are those
// of its name.
type copiedTable struct {
	name, id       string
	names, columns []string
}

// copyRows returns the statement that copies the rows of the timers first to last to ids that are
// lower by down, with names that begin with prefix.
func (t *copiedTable) copyRows(first, last, down int64, prefix string) string {
	values := slices.Clone(t.columns)
	for i, c := range t.columns {
		switch {
		case c == t.id:
			values[i] = fmt.Sprintf("%s-%d", c, down)
		case slices.Contains(t.names, c):
			values[i] = fmt.Sprintf("CONCAT('%s',%s)", prefix, c)
		}
	}
	return fmt.Sprintf("INSERT INTO %s (%s) SELECT %s FROM %s WHERE %s BETWEEN %d AND %d",
		t.name, strings.Join(t.columns, ","), strings.Join(values, ","), t.name, t.id, first, last)
}

func columnsOf(ctx context.Context, db *sql.DB, table string) (columns []string, err error) {
	rows, err := db.QueryContext(
		ctx,
		"SELECT column_name FROM information_schema.columns WHERE table_schema=DATABASE() AND table_name=?",
		table,
	)
	if err != nil {
		return nil, fmt.Errorf("reading the columns of %s: %w", table, err)
	}
	defer rows.Close()
	for rows.Next() {
		var c string
		if err := rows.Scan(&c); err != nil {
			return nil, fmt.Errorf("reading the columns of %s: %w", table, err)
		}
		columns = append(columns, c)
	}
	return columns, rows.Err() //nolint:wrapcheck // the caller says what it was doing
}
