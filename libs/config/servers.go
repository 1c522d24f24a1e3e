package config

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/rs/zerolog"
	"golang.org/x/oauth2"

	"github.com/carillon-timer/carillon/libs/bus/pulsarauth"
	"github.com/carillon-timer/carillon/libs/certfile"
)

// MySQL is the server of the store.
type MySQL struct {
	DSN         DSN
	Connections int
	TLS         bool
	Files       certfile.Files
}

// Register registers the settings.
func (c *MySQL) Register(s *Set) {
	s.DSN(
		&c.DSN,
		"mysql-dsn",
		"",
		"MySQL server and database: user:password@tcp(host:port)/database; or nodes in order of preference: tcp(host1:port,host2:port)",
	)
	s.Int(
		&c.Connections,
		"mysql-connections",
		16,
		"connections of one process to MySQL, besides two for leases and sessions",
	)
	s.Bool(&c.TLS, "mysql-tls", false, "connect to MySQL over TLS and check its certificate")
	s.String(
		&c.Files.CA,
		"mysql-tls-ca",
		"",
		"file with the authorities of MySQL's certificate, in PEM; read again when it changes. Without it the system's",
	)
	s.String(
		&c.Files.Cert,
		"mysql-tls-cert",
		"",
		"file with the certificate to show to MySQL, in PEM; read again when it changes",
	)
	s.String(&c.Files.Key, "mysql-tls-key", "", "file with the key of mysql-tls-cert, in PEM")
}

// Validate checks that a DSN is given; the store checks its syntax.
func (c *MySQL) Validate() error {
	const most = 1000
	return errors.Join(
		notEmpty("mysql-dsn", c.DSN.Reveal()),
		between("mysql-connections", c.Connections, 2, most),
		checkFiles("mysql-tls", c.Files, c.TLS, "mysql-tls=true"),
	)
}

// Client reads the files of TLS. It returns nil without TLS.
func (c *MySQL) Client(log zerolog.Logger) (*certfile.Client, error) {
	if !c.TLS {
		return nil, nil //nolint:nilnil // there is no TLS
	}
	return loadClient("mysql-tls", c.Files, log)
}

// Redis are the servers of the window.
type Redis struct {
	Addrs    []string
	TLS      bool
	Files    certfile.Files
	Prefix   string
	Username string
	Password Secret
	Sentinel RedisSentinel
}

// RedisSentinel says how to find a master by sentinels.
type RedisSentinel struct {
	Master   string // its name; empty: without sentinels
	Username string
	Password Secret
}

// Register registers the settings.
func (c *Redis) Register(s *Set) {
	s.List(
		&c.Addrs,
		"redis-addrs",
		"",
		"Redis servers, host:port separated by commas; several are a cluster, or sentinels with redis-sentinel-master",
	)
	s.String(&c.Prefix, "redis-prefix", "carillon", "first part of every key")
	s.String(&c.Username, "redis-username", "", "user name at Redis")
	s.Secret(&c.Password, "redis-password", "password at Redis")
	s.String(
		&c.Sentinel.Master,
		"redis-sentinel-master",
		"",
		"name of the master that the sentinels at redis-addrs watch",
	)
	s.String(&c.Sentinel.Username, "redis-sentinel-username", "", "user name at the sentinels")
	s.Secret(&c.Sentinel.Password, "redis-sentinel-password", "password at the sentinels")
	s.Bool(&c.TLS, "redis-tls", false, "connect to Redis over TLS and check its certificate")
	s.String(
		&c.Files.CA,
		"redis-tls-ca",
		"",
		"file with the authorities of Redis' certificate, in PEM; read again when it changes. Without it the system's",
	)
	s.String(
		&c.Files.Cert,
		"redis-tls-cert",
		"",
		"file with the certificate to show to Redis, in PEM; read again when it changes",
	)
	s.String(&c.Files.Key, "redis-tls-key", "", "file with the key of redis-tls-cert, in PEM")
}

// Validate checks the settings.
func (c *Redis) Validate() error {
	if len(c.Addrs) == 0 {
		return notEmpty("redis-addrs", "")
	}
	var errs []error
	for _, a := range c.Addrs {
		errs = append(errs, checkAddr("redis-addrs", a))
	}
	if strings.ContainsAny(c.Prefix, "{}") {
		errs = append(
			errs,
			errors.New("redis-prefix: braces would change which cluster node keeps a key"),
		)
	}
	if c.Sentinel.Master == "" && c.Sentinel != (RedisSentinel{}) {
		errs = append(errs, errors.New(
			"redis-sentinel-username, redis-sentinel-password: without effect unless redis-sentinel-master names the master",
		))
	}
	errs = append(
		errs,
		notEmpty("redis-prefix", c.Prefix),
		checkFiles("redis-tls", c.Files, c.TLS, "redis-tls=true"),
	)
	return errors.Join(errs...)
}

// Client reads the files of TLS. It returns nil without TLS.
func (c *Redis) Client(log zerolog.Logger) (*certfile.Client, error) {
	if !c.TLS {
		return nil, nil //nolint:nilnil // there is no TLS
	}
	return loadClient("redis-tls", c.Files, log)
}

// Pulsar is the server of the bus.
type Pulsar struct {
	URL       DSN
	AdminURL  DSN
	Tenant    string
	Namespace string
	Token     Secret
	OAuth2    pulsarauth.Options
	Files     certfile.Files
	// Partitions of each task topic. Setup adds partitions and removes none.
	Partitions int
}

// Register registers the settings.
func (c *Pulsar) Register(s *Set) {
	s.DSN(
		&c.URL,
		"pulsar-url",
		"",
		"Pulsar's service URL: pulsar://host:6650, or pulsar+ssl://host:6651 for TLS; more brokers after commas",
	)
	s.DSN(
		&c.AdminURL,
		"pulsar-admin-url",
		"",
		"Pulsar's admin URL: http://host:8080, or https://host:8443 for TLS; more brokers after commas",
	)
	s.String(&c.Tenant, "pulsar-tenant", "carillon", "tenant of the topics")
	s.String(&c.Namespace, "pulsar-namespace", "main", "namespace of the topics")
	s.Secret(&c.Token, "pulsar-token", "token to log in with")
	s.String(
		&c.OAuth2.Issuer,
		"pulsar-oauth2-issuer",
		"",
		"URL of the issuer of tokens by OAuth2 client credentials, instead of pulsar-token",
	)
	s.String(
		&c.OAuth2.KeyFile,
		"pulsar-oauth2-key-file",
		"",
		"JSON file with client_id and client_secret at that issuer; read again for each token",
	)
	s.String(&c.OAuth2.Audience, "pulsar-oauth2-audience", "", "audience of the tokens")
	s.List(
		&c.OAuth2.Scopes,
		"pulsar-oauth2-scopes",
		"",
		"scopes of the tokens, separated by commas",
	)
	s.String(
		&c.Files.CA,
		"pulsar-tls-ca",
		"",
		"file with the authorities of Pulsar's certificates, in PEM; read again when it changes. Without it the system's",
	)
	s.String(
		&c.Files.Cert,
		"pulsar-tls-cert",
		"",
		"file with the certificate to show to Pulsar, in PEM; read again when it changes. Without a token it is the login",
	)
	s.String(&c.Files.Key, "pulsar-tls-key", "", "file with the key of pulsar-tls-cert, in PEM")
	s.Int(
		&c.Partitions,
		"pulsar-partitions",
		4,
		"partitions of each task topic; partitions are added, never removed. The same for all services",
	)
}

// Validate checks the settings.
func (c *Pulsar) Validate() error {
	return errors.Join(
		checkURLs("pulsar-url", c.URL, "pulsar", "pulsar+ssl"),
		checkURLs("pulsar-admin-url", c.AdminURL, "http", "https"),
		pulsarName("pulsar-tenant", c.Tenant),
		pulsarName("pulsar-namespace", c.Namespace),
		between("pulsar-partitions", c.Partitions, 1, maxPartitions),
		c.checkOAuth2(),
		checkFiles(
			"pulsar-tls",
			c.Files,
			c.hasTLS(),
			"pulsar-url begins with pulsar+ssl:// or pulsar-admin-url with https://",
		),
	)
}

// pulsarNames are the names that Pulsar's NamedEntity.checkName allows.
var pulsarNames = regexp.MustCompile(`^[-=:.\w]+$`)

// pulsarName checks the name of a tenant or namespace. Pulsar's answer to another one looks like an
// outage.
func pulsarName(name, text string) error {
	if !pulsarNames.MatchString(text) {
		return fmt.Errorf(
			"%s: expected letters, digits and any of - _ = : . without a slash, found %q",
			name,
			text,
		)
	}
	return nil
}

func (c *Pulsar) checkOAuth2() error {
	o := &c.OAuth2
	switch {
	case o.Issuer == "" && o.KeyFile == "" && o.Audience == "" && len(o.Scopes) == 0:
		return nil
	case o.Issuer == "" || o.KeyFile == "":
		return errors.New("pulsar-oauth2-issuer, pulsar-oauth2-key-file: give both or none")
	case c.Token != "":
		return errors.New(
			"pulsar-token: given together with pulsar-oauth2-issuer: give one of the two",
		)
	}
	return checkURL("pulsar-oauth2-issuer", DSN(o.Issuer), "https", "http")
}

// Tokens returns the source of tokens, or nil without a login by token.
func (c *Pulsar) Tokens() (oauth2.TokenSource, error) {
	switch {
	case c.Token != "":
		return oauth2.StaticTokenSource(&oauth2.Token{AccessToken: c.Token.Reveal()}), nil
	case c.OAuth2.Issuer == "":
		return nil, nil //nolint:nilnil // the clients send no token
	}
	tokens, err := pulsarauth.NewTokenSource(c.OAuth2)
	if err != nil {
		return nil, Problem(fmt.Errorf("pulsar-oauth2-key-file: %w", err))
	}
	return tokens, nil
}

// hasTLS reports whether one of the URLs has TLS.
func (c *Pulsar) hasTLS() bool {
	return strings.HasPrefix(c.URL.Reveal(), "pulsar+ssl:") ||
		strings.HasPrefix(c.AdminURL.Reveal(), "https:")
}

// Client reads the files of TLS. It returns nil if there are none.
func (c *Pulsar) Client(log zerolog.Logger) (*certfile.Client, error) {
	if c.Files == (certfile.Files{}) {
		return nil, nil //nolint:nilnil // the clients' defaults apply
	}
	return loadClient("pulsar-tls", c.Files, log)
}

// maxPartitions is far beyond the number of executors that share a topic well.
const maxPartitions = 256

// loadClient reads the files of a TLS client. An error is *Problems.
func loadClient(name string, f certfile.Files, log zerolog.Logger) (*certfile.Client, error) {
	c, err := certfile.LoadClient(name, f, log)
	return c, Problem(err)
}

// checkFiles checks the files of a TLS client. on tells whether TLS is in use; how switches it on.
func checkFiles(name string, f certfile.Files, on bool, how string) error {
	var errs []error
	if (f.Cert == "") != (f.Key == "") {
		errs = append(errs, fmt.Errorf("%s-cert, %s-key: give both or none", name, name))
	}
	if !on && f != (certfile.Files{}) {
		errs = append(
			errs,
			fmt.Errorf("%s-ca, %s-cert, %s-key: without effect unless %s", name, name, name, how),
		)
	}
	return errors.Join(errs...)
}
