package wiring

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/config"
	"github.com/carillon-timer/carillon/libs/window/rediswindow"
)

// TestRedisAdvice has the errors of Redis 7 and of the client library.
func TestRedisAdvice(t *testing.T) {
	t.Parallel()
	plain := config.Redis{Addrs: []string{"a:1", "b:2"}}
	encrypted, sentinel := plain, plain
	encrypted.TLS = true
	sentinel.Sentinel.Master = "x"
	const all = "redis: all sentinels specified in configuration are unreachable: "
	for _, c := range []struct {
		redis config.Redis
		text  string
		want  string
	}{
		{plain, "EOF", "if the port speaks TLS, set redis-tls=true"},
		{plain, "read tcp 1.2.3.4:5->1.2.3.4:6: read: connection reset by peer", "set redis-tls=true"},
		{encrypted, "context deadline exceeded", "leave redis-tls=false"},
		{encrypted, "EOF", "leave redis-tls=false"},
		{encrypted, "tls: first record does not look like a TLS handshake", "leave redis-tls=false"},
		{encrypted, "remote error: tls: certificate required", "redis-tls-cert and redis-tls-key"},
		{encrypted, "remote error: tls: bad certificate", "redis-tls-cert and redis-tls-key"},
		{plain, "ERR This instance has cluster support disabled", "several addresses in redis-addrs mean a cluster"},
		{plain, "ERR unknown command 'cluster', with args beginning with: 'slots'", "redis-sentinel-master must name"},
		{plain, "ERR unknown command `CLUSTER`, with args beginning with: `slots`", "redis-sentinel-master must name"},
		{plain, "NOAUTH Authentication required.", "correct redis-username and redis-password"},
		{plain, "WRONGPASS invalid username-password pair or user is disabled.", "correct redis-username and redis-password"},
		{sentinel, all + "NOAUTH Authentication required.", "correct redis-sentinel-username and redis-sentinel-password"},
		{sentinel, "NOAUTH Authentication required.", "or redis-sentinel-username"},
		{sentinel, all + "redis: nil", `know no master "x": correct redis-sentinel-master`},
		{sentinel, all + "ERR unknown command 'sentinel', with args beginning with: 'm'", "redis-addrs must name sentinels"},
		{plain, "dial tcp 127.0.0.1:1: connect: connection refused", "connection refused"},
	} {
		err := explain(redisServer, &Settings{Redis: c.redis}, errors.New(c.text), false)
		require.ErrorContains(t, err, "redis-addrs a:1,b:2: "+c.text)
		require.ErrorContains(t, err, c.want, c.text)
	}
	err := explain(redisServer, &Settings{Redis: plain}, rediswindow.ErrSentinel, false)
	require.ErrorContains(t, err, "redis-sentinel-master must name")
	one := config.Redis{Addrs: []string{"a:1"}}
	err = explain(redisServer, &Settings{Redis: one}, rediswindow.ErrReplica, true)
	require.ErrorContains(t, err, "redis-addrs must name the master")
	err = explain(redisServer, &Settings{Redis: one}, rediswindow.ErrCluster, true)
	require.ErrorContains(t, err, "redis-addrs must name several nodes of a cluster")
	for _, failover := range []config.Redis{plain, sentinel} {
		err = explain(redisServer, &Settings{Redis: failover}, rediswindow.ErrReplica, true)
		require.NotContains(t, err.Error(), "must name")
	}
	require.NoError(t, explain(redisServer, &Settings{}, nil, false))
	err = explain(redisServer, &Settings{Redis: plain}, errors.New("EOF"), true)
	require.EqualError(t, err, "redis-addrs a:1,b:2: EOF", "its port was right")
}

func TestPulsarAdvice(t *testing.T) {
	t.Parallel()
	const broker = "pinging the broker: connecting to the broker 127.0.0.1:1: "
	for _, c := range []struct{ url, text, want string }{
		{"pulsar://a:1", broker + "unable to read frame size: EOF", "needs pulsar+ssl://"},
		{"pulsar://a:1", "pinging the broker: the broker a:1 does not answer the handshake", "needs pulsar+ssl://"},
		{"pulsar+ssl://a:1", broker + "EOF", "needs pulsar://"},
		{"pulsar+ssl://a:1", broker + "tls: first record does not look like a TLS handshake", "needs pulsar://"},
		{"pulsar+ssl://a:1", broker + "remote error: tls: certificate required", "pulsar-tls-cert and pulsar-tls-key"},
		{"pulsar://a:1", broker + "Unable to authenticate", "pulsar-token"},
		{"pulsar://a:1", broker + "dial tcp 127.0.0.1:1: connect: connection refused", "pulsar-url must name a broker"},
		{"pulsar://a:1", "setting up Pulsar at a: net/http: HTTP/1.x transport connection broken: malformed HTTP response", "pulsar-admin-url"},
		{"pulsar://a:1", "setting up Pulsar at a: http: server gave HTTP response to HTTPS client", "pulsar-admin-url"},
		{"pulsar://a:1", "setting up Pulsar at a: dial tcp 127.0.0.1:1: connect: connection refused", "pulsar-admin-url"},
		{"pulsar://a:1", "setting up Pulsar at a: remote error: tls: bad certificate", "pulsar-tls-cert and pulsar-tls-key"},
	} {
		s := &Settings{Pulsar: config.Pulsar{URL: config.DSN(c.url)}}
		require.ErrorContains(
			t,
			explain(pulsarServer, s, errors.New(c.text), false),
			c.want,
			c.text,
		)
	}
	s := &Settings{Pulsar: config.Pulsar{URL: "pulsar://a:1"}}
	err := explain(pulsarServer, s, errors.New("pinging the broker: request timed out"), true)
	require.EqualError(t, err, "pulsar-url pulsar://a:1: pinging the broker: request timed out")
}

// TestMySQLErrorNamesAddress without the password.
func TestMySQLErrorNamesAddress(t *testing.T) {
	t.Parallel()
	s := &Settings{MySQL: config.MySQL{DSN: "u:hun(ter)2@tcp(a:1,b:2)/d"}}
	err := explain(mysqlServer, s, errors.New("the database did not answer in time"), false)
	require.EqualError(t, err, "mysql-dsn at a:1,b:2: the database did not answer in time")
}
