package wiring

import (
	"crypto/tls"
	"errors"
	"fmt"
	"strings"

	"github.com/carillon-timer/carillon/libs/config"
	"github.com/carillon-timer/carillon/libs/window/rediswindow"
)

// Names of the servers in the log, in /readyz, and in front of their settings.
const (
	mysqlServer  = "mysql"
	redisServer  = "redis"
	pulsarServer = "pulsar"
)

// explain adds to an error of a server its address, and the settings to look at. If the server was
// reached before, the process has the right addresses and ports.
func explain(server string, s *Settings, err error, reached bool) error {
	if err == nil {
		return nil
	}
	advice := certificateAdvice(server, err)
	switch server {
	case mysqlServer:
		err = fmt.Errorf("mysql-dsn at %s: %w", mysqlAddr(s.MySQL.DSN), err)
	case redisServer:
		err = fmt.Errorf("redis-addrs %s: %w", strings.Join(s.Redis.Addrs, ","), err)
		if advice == "" {
			advice = redisAdvice(&s.Redis, err, reached)
		}
	case pulsarServer:
		if advice == "" {
			advice = pulsarAdvice(&s.Pulsar, err, reached)
		}
		// Other errors name the address.
		switch {
		case errors.Is(err, errSilent):
			err = fmt.Errorf("pulsar-admin-url %s: %w", s.Pulsar.AdminURL, err)
		case isBrokerError(err) && isTimeout(err):
			err = fmt.Errorf("pulsar-url %s: %w", s.Pulsar.URL, err)
		}
	}
	if advice == "" {
		return err
	}
	return fmt.Errorf("%w: %s", err, advice)
}

// mysqlAddr returns the addresses in a DSN.
func mysqlAddr(dsn config.DSN) string {
	shown := dsn.String() // without the password, which may contain brackets
	_, addr, ok := strings.Cut(shown, "(")
	if addr, _, closed := strings.Cut(addr, ")"); ok && closed {
		return addr
	}
	return shown
}

// certificateAdvice is what to do about a certificate that one of the two sides does not trust.
func certificateAdvice(server string, err error) string {
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return server + "-tls-ca needs the authority of the server's certificate, " +
			"which must name the server's address"
	}
	if containsAny(err.Error(), "tls: bad certificate", "tls: certificate required",
		"tls: unknown certificate") {
		return fmt.Sprintf("the server asks for a certificate that it trusts: "+
			"%s-tls-cert and %s-tls-key must name one", server, server)
	}
	return ""
}

// redisAdvice is what to do about an error of Redis; empty if the error says enough.
func redisAdvice(c *config.Redis, err error, reached bool) string {
	text := err.Error()
	sentinels := strings.Contains(text, "all sentinels")
	switch {
	case errors.Is(err, rediswindow.ErrSentinel), isUnknown(text, "cluster"):
		return "for sentinels in redis-addrs, redis-sentinel-master must name their master"
	case errors.Is(err, rediswindow.ErrReplica):
		if c.Sentinel.Master != "" || len(c.Addrs) > 1 {
			return "" // a failover is under way
		}
		return "redis-addrs must name the master"
	case errors.Is(err, rediswindow.ErrCluster):
		return "redis-addrs must name several nodes of a cluster"
	case sentinels && strings.HasSuffix(text, "redis: nil"):
		return fmt.Sprintf("the sentinels answer, and know no master %q: "+
			"correct redis-sentinel-master", c.Sentinel.Master)
	case sentinels && isUnknown(text, "sentinel"):
		return "redis-addrs must name sentinels, because redis-sentinel-master is set"
	case strings.Contains(text, "cluster support disabled"):
		return "several addresses in redis-addrs mean a cluster: give one, " +
			"or sentinels and redis-sentinel-master"
	case containsAny(text, "NOAUTH", "WRONGPASS", "without any password", "invalid password"):
		if sentinels {
			return "correct redis-sentinel-username and redis-sentinel-password"
		}
		if c.Sentinel.Master != "" {
			return "correct redis-username and redis-password, " +
				"or redis-sentinel-username and redis-sentinel-password"
		}
		return "correct redis-username and redis-password"
	case reached:
		return ""
	case strings.Contains(text, "does not look like a TLS handshake"):
		return "the port does not speak TLS: leave redis-tls=false, or use the port for TLS"
	case c.TLS && containsAny(text, "EOF", "connection reset", "deadline exceeded", "timeout"):
		return "if the port does not speak TLS, leave redis-tls=false or use the port for TLS"
	case containsAny(text, "EOF", "connection reset"):
		return "if the port speaks TLS, set redis-tls=true"
	}
	return ""
}

// isUnknown reports whether a server does not know a command. Its versions quote it differently.
func isUnknown(text, command string) bool {
	return containsAny(strings.ToLower(text),
		"unknown command '"+command+"'", "unknown command `"+command+"`")
}

// pulsarAdvice is what to do about an error of Pulsar.
func pulsarAdvice(c *config.Pulsar, err error, reached bool) string {
	text := err.Error()
	encrypted := strings.HasPrefix(c.URL.Reveal(), "pulsar+ssl://")
	atBroker := isBrokerError(err)
	switch {
	case atBroker && containsAny(text, "uthentication", "uthenticate", "uthorization"):
		return "correct pulsar-token, pulsar-oauth2-key-file, or pulsar-tls-cert and pulsar-tls-key"
	case reached:
		return ""
	case containsAny(text, "HTTP response to HTTPS client", "malformed HTTP", "EOF") && !atBroker:
		return "pulsar-admin-url must name the admin port: http:// without TLS, https:// with it"
	case containsAny(text, "refused", "no such host", "timeout", "deadline exceeded") && !atBroker:
		return "pulsar-admin-url must name an admin port that this process reaches"
	case !atBroker:
		return ""
	case containsAny(text, "EOF", "handshake", "connection reset", "frame") && encrypted:
		return "pulsar-url must name the broker's port for TLS, by default 6651; " +
			"the one without TLS needs pulsar://"
	case containsAny(text, "EOF", "handshake", "connection reset", "frame"):
		return "pulsar-url must name the broker's own port, by default 6650; " +
			"a port with TLS needs pulsar+ssl://"
	}
	return "pulsar-url must name a broker that this process reaches"
}

// isBrokerError reports whether an error is of Pulsar's brokers, not of its admin API.
func isBrokerError(err error) bool {
	return strings.HasPrefix(err.Error(), "pinging the broker: ")
}

// isTimeout reports whether a server did not answer. Clients lose the type of the error.
func isTimeout(err error) bool {
	return containsAny(err.Error(), "timeout", "timed out", "deadline exceeded")
}

func containsAny(text string, parts ...string) bool {
	for _, p := range parts {
		if strings.Contains(text, p) {
			return true
		}
	}
	return false
}
