package load

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/redis/go-redis/v9"

	"github.com/carillon-timer/carillon/e2e/cluster"
)

// PerFire is how much of something a phase needed for each fire.
type PerFire struct {
	Name  string  `json:"name"`
	Value float64 `json:"per_fire"`
}

// counters are totals since the start of their server or process, by name.
type counters map[string]float64

// mysqlCounters are status variables of the server, with their names in results.
//
//nolint:gochecknoglobals // a constant
var mysqlCounters = map[string]string{
	"Questions":                "MySQL statements",
	"Handler_commit":           "MySQL commits of a statement or transaction",
	"Innodb_rows_inserted":     "MySQL rows inserted",
	"Innodb_rows_updated":      "MySQL rows updated",
	"Innodb_rows_deleted":      "MySQL rows deleted",
	"Innodb_rows_read":         "MySQL rows read",
	"Innodb_os_log_written":    "MySQL bytes of redo log",
	"Innodb_data_fsyncs":       "MySQL flushes to disk",
	"Bytes_received":           "MySQL bytes received",
	"Bytes_sent":               "MySQL bytes sent",
	"Innodb_buffer_pool_reads": "MySQL pages read from disk",
}

// redisCounters are fields of INFO, with their names in results.
//
//nolint:gochecknoglobals // a constant
var redisCounters = map[string]string{
	"total_commands_processed": "Redis commands",
	"total_net_input_bytes":    "Redis bytes received",
	"total_net_output_bytes":   "Redis bytes sent",
}

// readCounters reads what the servers and processes of a cluster count. A server that does not
// answer is left out: the figures are beside the measurement, which must not fail by them.
func readCounters(ctx context.Context, c cluster.Cluster) counters {
	const timeout = 5 * time.Second
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	all := counters{}
	for _, role := range cluster.Roles() {
		for _, p := range c.Role(role) {
			m, err := p.Metrics(ctx)
			if err != nil {
				continue
			}
			name := string(role)
			if c.Servers() == nil {
				name = "the process" // it has every role
			}
			all[name+" bytes allocated"] += m.Sum("go_memstats_alloc_bytes_total")
			all[name+" objects allocated"] += m.Sum("go_memstats_mallocs_total")
		}
		if c.Servers() == nil {
			return all
		}
	}
	s := c.Servers()
	_ = readMySQL(ctx, s.MySQLDSN, all)
	for _, addr := range s.RedisAddrs {
		_ = readRedis(ctx, addr, all)
	}
	if t, err := s.Traffic(ctx); err == nil {
		all["Pulsar messages published"] = float64(t.Messages)
		all["Pulsar entries written"] = float64(t.Entries)
		all["Pulsar bytes stored"] = float64(t.Bytes)
	}
	return all
}

func readMySQL(ctx context.Context, dsn string, into counters) error {
	cfg, err := mysql.ParseDSN(dsn)
	if err != nil {
		return fmt.Errorf("reading MySQL's counters: %w", err)
	}
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return fmt.Errorf("reading MySQL's counters: %w", err)
	}
	db := sql.OpenDB(connector)
	defer db.Close()
	rows, err := db.QueryContext(ctx, "SHOW GLOBAL STATUS")
	if err != nil {
		return fmt.Errorf("reading MySQL's counters: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var name, value string
		if err := rows.Scan(&name, &value); err != nil {
			return fmt.Errorf("reading MySQL's counters: %w", err)
		}
		into.add(mysqlCounters[name], value)
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("reading MySQL's counters: %w", err)
	}
	return nil
}

func readRedis(ctx context.Context, addr string, into counters) error {
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	defer rdb.Close()
	info, err := rdb.Info(ctx, "stats").Result()
	if err != nil {
		return fmt.Errorf("reading Redis' counters: %w", err)
	}
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		into.add(redisCounters[name], value)
	}
	return nil
}

func (c counters) add(name, value string) {
	if v, err := strconv.ParseFloat(value, 64); err == nil && name != "" {
		c[name] += v
	}
}

// perFire returns how much of each counter a fire needed.
func perFire(before, after counters, fires int64) []PerFire {
	var all []PerFire
	for name, v := range after {
		if b, ok := before[name]; ok {
			all = append(all, PerFire{name, (v - b) / float64(max(fires, 1))})
		}
	}
	slices.SortFunc(all, func(a, b PerFire) int { return strings.Compare(a.Name, b.Name) })
	return all
}

func (p PerFire) String() string { return fmt.Sprintf("%s %.3g", p.Name, p.Value) }
