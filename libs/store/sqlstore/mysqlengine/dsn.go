package mysqlengine

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strings"

	"github.com/go-sql-driver/mysql"

	"github.com/carillon-timer/carillon/libs/store/sqlstore/engine"
	"github.com/carillon-timer/carillon/libs/timer"
)

// Config is a parsed DSN.
type Config struct {
	*mysql.Config

	// Addrs are the addresses of the nodes, in order of preference.
	Addrs []string
	// Have are the capabilities that the server may have, besides what it tells itself.
	Have engine.Capabilities
}

// ownDatabases are those that every server has for itself.
var ownDatabases = []string{"mysql", "sys", "information_schema", "performance_schema"}

// ParseDSN parses a DSN and sets what the store depends on. The address may be a list:
// "user:password@tcp(host1:3306,host2:3306)/database". Matched rows are counted, not
// changed ones. The driver interpolates parameters, which saves a round trip. Statements are
// strict. Times are UTC.
func ParseDSN(dsn string) (*Config, error) {
	first, rest := splitAddrs(dsn)
	cfg, err := mysql.ParseDSN(first)
	if err != nil {
		return nil, timer.Invalid(
			"dsn", err.Error()+": expected user:password@tcp(host:3306)/database",
		)
	}
	out := &Config{Config: cfg, Addrs: []string{cfg.Addr}, Have: engine.All()}
	for _, addr := range rest {
		if _, _, err := net.SplitHostPort(addr); err != nil || cfg.Net != "tcp" {
			return nil, timer.Invalid(
				"dsn",
				fmt.Sprintf("%q in the list of addresses: use tcp(host1:3306,host2:3306)", addr),
			)
		}
		if slices.Contains(out.Addrs, addr) {
			return nil, timer.Invalid("dsn", "the address "+addr+" is there twice: remove one")
		}
		out.Addrs = append(out.Addrs, addr)
	}
	// A statement that a demoted node refused ends its connection, and is repeated on another node.
	// Of one address nobody knows whether there is another node: it would hide why nothing is written.
	cfg.RejectReadOnly = cfg.RejectReadOnly || len(rest) > 0
	if cfg.DBName == "" {
		return nil, timer.Invalid(
			"dsn",
			"it names no database: user:password@tcp(host:3306)/database",
		)
	}
	if slices.Contains(ownDatabases, strings.ToLower(cfg.DBName)) {
		return nil, timer.Invalid(
			"dsn", cfg.DBName+" is a database of the server itself: create one for Carillon alone",
		)
	}
	cfg.ClientFoundRows = true
	cfg.InterpolateParams = true
	cfg.MultiStatements = false
	cfg.Collation = ""
	if cfg.Timeout == 0 {
		cfg.Timeout = dialTime
	}
	if cfg.ReadTimeout == 0 {
		cfg.ReadTimeout = ioTime
	}
	if cfg.WriteTimeout == 0 {
		cfg.WriteTimeout = ioTime
	}
	if cfg.Params == nil {
		cfg.Params = map[string]string{}
	}
	cfg.Params["sql_mode"] = "'STRICT_ALL_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION'"
	cfg.Params["time_zone"] = "'+00:00'"
	cfg.Params["innodb_lock_wait_timeout"] = lockWaitS
	cfg.Params["wait_timeout"] = waitTimeoutS
	// What the driver would log about closed connections is in the error, too.
	cfg.Logger = &mysql.NopLogger{}
	return out, nil
}

// splitAddrs returns the DSN with the first address of its list, and the other addresses. The list
// is between the last @ before the database and its slash, as the driver reads it.
func splitAddrs(dsn string) (first string, rest []string) {
	slash := strings.LastIndexByte(dsn, '/')
	if slash < 0 {
		return dsn, nil
	}
	at := strings.LastIndexByte(dsn[:slash], '@') + 1
	list := addrList.FindStringSubmatchIndex(dsn[at:slash])
	if list == nil {
		return dsn, nil
	}
	from, to := at+list[2], at+list[3]
	addrs := strings.Split(dsn[from:to], ",")
	return dsn[:from] + addrs[0] + dsn[to:], addrs[1:]
}

var addrList = regexp.MustCompile(`^[a-z]+\(([^)]*)\)$`)

// UseTLS makes every new connection use the configuration that latest returns then, with the name of
// its node.
func UseTLS(cfg *Config, latest func() *tls.Config) error {
	if cfg.TLSConfig != "" {
		return timer.Invalid("dsn", "tls= in it contradicts mysql-tls: remove it")
	}
	_, _, err := net.SplitHostPort(cfg.Addr)
	if cfg.Net != "tcp" || err != nil {
		return timer.Invalid("dsn", "mysql-tls needs tcp(host:port)")
	}
	err = cfg.Apply(mysql.BeforeConnect(func(_ context.Context, c *mysql.Config) error {
		host, _, err := net.SplitHostPort(c.Addr)
		if err != nil {
			return fmt.Errorf("reading the address %q: %w", c.Addr, err)
		}
		c.TLS = latest()
		c.TLS.ServerName = host
		return nil
	}))
	if err != nil {
		return fmt.Errorf("using TLS: %w", err)
	}
	return nil
}
