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

// copyStored copies the rows of timers until there are n. The ids of the copies lie far below all
// that are created, and apart from those of other phases. A copy has no audit entry.
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
	for done, run := len(ids), int64(1); done < n; run++ {
		down := first/2 + int64(b.run)*phaseIDs + run*(last-first+1)
		for _, table := range []struct {
			name, id string
			replaced map[string]string
		}{
			{"timers", "id", map[string]string{
				"name":      fmt.Sprintf("CONCAT('%d-%d-',name)", b.run, run),
				"live_name": fmt.Sprintf("CONCAT('%d-%d-',live_name)", b.run, run),
			}},
			{"timer_versions", "timer_id", nil},
			{"timer_attributes", "timer_id", nil},
		} {
			columns, err := columnsOf(ctx, db, table.name)
			if err != nil {
				return fmt.Errorf("copying timers: %w", err)
			}
			values := slices.Clone(columns)
			for i, c := range columns {
				if c == table.id {
					values[i] = fmt.Sprintf("%s-%d", c, down)
				} else if v, ok := table.replaced[c]; ok {
					values[i] = v
				}
			}
			if _, err := db.ExecContext(ctx, fmt.Sprintf(
				"INSERT INTO %s (%s) SELECT %s FROM %s WHERE %s BETWEEN %d AND %d",
				table.name, strings.Join(columns, ","), strings.Join(values, ","),
				table.name, table.id, first, last,
			)); err != nil {
				return fmt.Errorf("copying timers: %w", err)
			}
		}
		if done += len(ids); run%10 == 0 || done >= n {
			fmt.Fprintf(b.Log, "%s: %d of %d timers stored\n", b.Cluster.Name(), done, n)
		}
	}
	return nil
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
