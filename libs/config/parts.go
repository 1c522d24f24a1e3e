package config

import (
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/carillon-timer/carillon/libs/bus/pulsaradmin"
	"github.com/carillon-timer/carillon/libs/encryption"
)

// All returns one of every component, for checks that need all names.
func All() []Part {
	return []Part{
		&HTTP{},
		&Admin{},
		&Log{},
		&Shutdown{},
		&Data{},
		&MySQL{},
		&Redis{},
		&Pulsar{},
		&API{},
		&OIDC{},
		&Gateway{},
		&Timing{},
		&Retention{},
		&Callback{},
		&Encryption{},
		&Executor{},
		&Canary{},
		&Tracing{},
		&Testing{},
		&Zones{},
	}
}

func allNames() map[string]bool {
	known := make(map[string]bool)
	for name := range NewSet("", All()...).values {
		known[name] = true
	}
	return known
}

// HTTP is the address of the API, and its certificate.
type HTTP struct {
	Addr            string
	TLSCert, TLSKey string // files; empty: no TLS
}

// Register registers the settings.
func (c *HTTP) Register(s *Set) {
	s.String(&c.Addr, "http-addr", "127.0.0.1:8080", "address of the API; port 0 picks a free one")
	s.String(
		&c.TLSCert,
		"http-tls-cert",
		"",
		"file with the API's certificate and its chain, in PEM; read again when it changes. Without it the API is plain HTTP",
	)
	s.String(&c.TLSKey, "http-tls-key", "", "file with the key of http-tls-cert, in PEM")
}

// Validate checks the settings.
func (c *HTTP) Validate() error {
	err := checkAddr("http-addr", c.Addr)
	if (c.TLSCert == "") != (c.TLSKey == "") {
		err = errors.Join(err, errors.New("http-tls-cert, http-tls-key: give both or none"))
	}
	return err
}

// Admin is the address of probes and metrics.
type Admin struct{ Addr string }

// Register registers the settings.
func (c *Admin) Register(s *Set) {
	s.String(
		&c.Addr,
		"admin-addr",
		"127.0.0.1:8081",
		"address of /livez, /readyz and /metrics; port 0 picks a free one",
	)
}

// Validate checks the settings.
func (c *Admin) Validate() error { return checkAddr("admin-addr", c.Addr) }

// Listeners checks the addresses of a program with both listeners against each other. It has no
// settings of its own.
type Listeners struct {
	HTTP  *HTTP
	Admin *Admin
}

// Register registers nothing.
func (*Listeners) Register(*Set) {}

// Validate refuses one port for both listeners, if the hosts are the same or one is all addresses.
// Two names of one host are not recognized: then the second listener fails.
func (c *Listeners) Validate() error {
	host, port, err := net.SplitHostPort(c.HTTP.Addr)
	adminHost, adminPort, adminErr := net.SplitHostPort(c.Admin.Addr)
	if err != nil || adminErr != nil || port != adminPort || port == "0" {
		return nil //nolint:nilerr // an address that is none is a problem of its own part
	}
	if strings.EqualFold(host, adminHost) || isAllAddresses(host) || isAllAddresses(adminHost) {
		return fmt.Errorf(
			"http-addr, admin-addr: %s and %s are one port: give each its own",
			c.HTTP.Addr, c.Admin.Addr,
		)
	}
	return nil
}

// isAllAddresses reports whether a listener's host stands for all addresses of the machine.
func isAllAddresses(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "" || err == nil && ip.Unmap().IsUnspecified()
}

// Log are the level and the format of the log.
type Log struct{ Level, Format string }

// Register registers the settings.
func (c *Log) Register(s *Set) {
	s.String(
		&c.Level,
		"log-level",
		"info",
		"minimum level that is logged: debug, info, warn or error",
	)
	s.String(&c.Format, "log-format", "auto", "json, pretty, or auto: pretty on a terminal")
}

// Validate checks the settings.
func (c *Log) Validate() error {
	return errors.Join(
		oneOf("log-level", c.Level, "debug", "info", "warn", "error"),
		oneOf("log-format", c.Format, "auto", "json", "pretty"),
	)
}

// Shutdown are the time limits of an orderly stop.
type Shutdown struct {
	Drain time.Duration // between "not ready" and the end of intake, so that load balancers notice
	Grace time.Duration // for work in flight
}

// Register registers the settings.
func (c *Shutdown) Register(s *Set) {
	s.Duration(
		&c.Drain,
		"shutdown-drain",
		0,
		"how long a stopping process still accepts requests while it reports that it is not ready",
	)
	s.Duration(
		&c.Grace,
		"shutdown-grace",
		15*time.Second,
		"how long a stopping process may take to finish work in flight",
	)
}

// Validate checks the settings.
func (c *Shutdown) Validate() error {
	return errors.Join(
		atLeast("shutdown-drain", c.Drain, 0),
		atLeast("shutdown-grace", c.Grace, time.Second),
	)
}

// Data is the directory of the all-in-one process.
type Data struct{ Dir string }

// Register registers the settings.
func (c *Data) Register(s *Set) {
	s.String(&c.Dir, "data-dir", "./data", "directory of the embedded database")
}

// Validate checks the settings.
func (c *Data) Validate() error { return notEmpty("data-dir", c.Dir) }

func checkURL(name string, d DSN, schemes ...string) error {
	if d == "" {
		return notEmpty(name, "")
	}
	u, err := url.Parse(d.Reveal())
	if err != nil || u.Host == "" {
		return fmt.Errorf("%s: not a URL: %s", name, d)
	}
	return oneOf(name+"'s scheme", u.Scheme, schemes...)
}

// checkURLs checks a URL whose hosts are separated by commas. Each host needs its port.
func checkURLs(name string, d DSN, schemes ...string) error {
	if !strings.Contains(d.Reveal(), ",") {
		return checkURL(name, d, schemes...)
	}
	first, hosts, err := pulsaradmin.SplitURL(d.Reveal())
	if err != nil {
		return fmt.Errorf("%s: not a URL of hosts separated by commas: %s", name, d)
	}
	errs := []error{oneOf(name+"'s scheme", first.Scheme, schemes...)}
	for _, h := range hosts {
		errs = append(errs, checkAddr(name, h))
	}
	return errors.Join(errs...)
}

// checkAddr checks host:port, where the host may be empty.
func checkAddr(name, addr string) error {
	if err := notEmpty(name, addr); err != nil {
		return err
	}
	_, port, err := net.SplitHostPort(addr)
	if err != nil || port == "" {
		if at := strings.LastIndex(addr, "@"); at >= 0 { // a URL with a password
			addr = encryption.Redacted + addr[at:]
		}
		return fmt.Errorf("%s: %q is not host:port", name, addr)
	}
	if n, err := strconv.Atoi(port); err == nil && (n < 0 || n > math.MaxUint16) {
		return fmt.Errorf("%s: %q has no port from 0 to %d", name, addr, math.MaxUint16)
	}
	return nil
}

func notEmpty(name, v string) error {
	if v != "" {
		return nil
	}
	return fmt.Errorf(
		"%s: missing (flag -%s or environment %s%s)",
		name,
		name,
		EnvPrefix,
		strings.ToUpper(strings.ReplaceAll(name, "-", "_")),
	)
}

func oneOf(name, v string, allowed ...string) error {
	if slices.Contains(allowed, v) {
		return nil
	}
	return fmt.Errorf("%s: %q is none of %s", name, v, strings.Join(allowed, ", "))
}

func between(name string, n, least, most int) error {
	if n < least || n > most {
		return fmt.Errorf("%s: %d is not between %d and %d", name, n, least, most)
	}
	return nil
}

func atLeast(name string, d, least time.Duration) error {
	if d < least {
		return fmt.Errorf("%s: %s is less than %s", name, d, least)
	}
	return nil
}
