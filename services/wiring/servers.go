package wiring

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"github.com/carillon-timer/carillon/libs/bus/pulsarbus"
	"github.com/carillon-timer/carillon/libs/clock"
	"github.com/carillon-timer/carillon/libs/config"
	"github.com/carillon-timer/carillon/libs/logging"
	"github.com/carillon-timer/carillon/libs/store/sqlstore"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/libs/window/rediswindow"
)

// Timeouts for servers that are not available yet.
const (
	minWait        = 200 * time.Millisecond
	maxWait        = 2 * time.Second
	attemptTimeout = 15 * time.Second // one attempt to prepare Pulsar, or to check the rights in MySQL
	slowAttempt    = 3 * time.Second  // after which an attempt that goes on is logged
	// redisReadyGrace is how long a new process is not ready while Redis is unavailable. A wrong
	// address must stop a rollout, but an outage of Redis must not stop services that work without
	// it.
	redisReadyGrace = time.Minute
)

var (
	errWaiting = errors.New("waiting for the server")
	errSilent  = errors.New("the server has not answered yet")
	errMigrate = errors.New("the server has not answered yet, or migrations run")
)

// OpenServers opens MySQL, Redis and Pulsar, and prepares them with migrations and topics. It waits
// for an unavailable MySQL until ctx ends, and /readyz names it. Errors that cannot pass, such as a
// wrong password, are returned. Any number of processes may run it at once.
//
// If Pulsar is unavailable, the process prepares it while it runs: executors find fires in MySQL,
// and the API's writes are in it. The process is not ready before Pulsar was reached once, so that a
// wrong address stops a rollout.
func OpenServers(ctx context.Context, k *Kit) error { return k.openServers(ctx, false) }

// openServers opens and prepares the servers. A setup waits for all of them, so that a wrong address
// of Redis stops a rollout before it begins, and checks the rights that later processes need.
func (k *Kit) openServers(ctx context.Context, setup bool) error {
	s := k.Settings
	o, err := mysqlOptions(&s.MySQL, k.Log)
	if err != nil {
		return err
	}
	st, err := openMySQL(ctx, o)
	if err != nil {
		return err
	}
	k.Store = st
	k.watchWrites(mysqlServer, st)
	k.Process.OnClose("mysql", func(context.Context) error { return st.Close() })
	if st.Node() != nil {
		k.Health.SetDetail("mysql", func() any { return st.Node() })
	}

	dial, err := redisDial(&s.Redis, k.Log)
	if err != nil {
		return err
	}
	w, err := rediswindow.New(rediswindow.Options{
		Addrs:    s.Redis.Addrs,
		Dial:     dial,
		Username: s.Redis.Username,
		Password: s.Redis.Password.Reveal(),
		Prefix:   s.Redis.Prefix,
		Logger:   k.Log,

		SentinelMaster:   s.Redis.Sentinel.Master,
		SentinelUsername: s.Redis.Sentinel.Username,
		SentinelPassword: s.Redis.Sentinel.Password.Reveal(),
	})
	if err != nil {
		return fmt.Errorf("redis-addrs: %w", err)
	}
	k.Window, k.claimPrefix = w, w.Claim
	k.Process.OnClose("redis", func(context.Context) error { return w.Close() })

	cfg, err := pulsarConfig(&s.Pulsar, k.Log)
	if err != nil {
		return err
	}
	b, err := pulsarbus.New(pulsarbus.Options{
		Config: cfg, Log: k.Log, Registerer: k.Registry, SetupFirst: true,
	})
	if err != nil {
		return fmt.Errorf("pulsar-url: %w", err)
	}
	k.Bus = b
	k.Process.OnClose("pulsar", func(context.Context) error { return b.Close() })

	pulsar := k.preparePulsar(ctx, b)
	k.Process.Work("setup of Pulsar", pulsar.run)
	all, ctx := errgroup.WithContext(ctx)
	database := k.watchServer(mysqlServer, st.Ping)
	all.Go(func() error {
		migrate := func(ctx context.Context) error {
			err := st.Migrate(ctx)
			ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
			defer cancel()
			if err == nil && setup {
				err = st.CheckRights(ctx)
			}
			if err == nil {
				_ = st.Ping(ctx) // it warns of settings that cost durability; /readyz repeats it
			}
			return err //nolint:wrapcheck // prepare says which server
		}
		// The database would go on with a migration that was cut off, while the next attempt begins it
		// anew. To take over the lock of a process that was killed takes longer than other attempts.
		const unlimited = 0
		err := k.prepare(ctx, mysqlServer, unlimited, migrate, database.check)
		if err == nil {
			database.start()
		}
		return err
	})
	all.Go(func() error { return pulsar.wait(ctx, setup) })
	if setup {
		all.Go(func() error { return k.prepare(ctx, redisServer, attemptTimeout, w.Ping, w.Ping) })
	} else {
		k.watchRedis()
	}
	return all.Wait() //nolint:wrapcheck // prepare says which server
}

// mysqlOptions returns how to connect to MySQL. An error is *config.Problems.
func mysqlOptions(c *config.MySQL, log zerolog.Logger) (o sqlstore.MySQLOptions, err error) {
	o = sqlstore.MySQLOptions{DSN: c.DSN.Reveal(), MaxOpen: c.Connections, Logger: log}
	client, err := c.Client(log)
	if err != nil {
		return o, err //nolint:wrapcheck // it names the setting
	}
	if client != nil {
		o.TLS = client.Config
	}
	if err := sqlstore.CheckMySQL(o); err != nil {
		return o, config.Problem(fmt.Errorf("mysql-dsn: %w", err))
	}
	return o, nil
}

// openMySQL opens the store on MySQL. It does not connect yet.
func openMySQL(ctx context.Context, o sqlstore.MySQLOptions) (*sqlstore.Store, error) {
	st, err := sqlstore.OpenMySQL(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("mysql-dsn: %w", err)
	}
	return st, nil
}

// dialFunc connects to a server.
type dialFunc func(ctx context.Context, network, addr string) (net.Conn, error)

// redisDial returns how to connect to Redis over TLS, or nil for plain TCP.
func redisDial(c *config.Redis, log zerolog.Logger) (dialFunc, error) {
	client, err := c.Client(log)
	if client == nil {
		return nil, err //nolint:wrapcheck // it names the setting
	}
	return client.DialContext, nil
}

// pulsarConfig returns how to connect to the deployment's own Pulsar.
func pulsarConfig(c *config.Pulsar, log zerolog.Logger) (pulsarbus.Config, error) {
	client, err := c.Client(log)
	if err != nil {
		return pulsarbus.Config{}, err //nolint:wrapcheck // it names the setting
	}
	tokens, err := c.Tokens()
	if err != nil {
		return pulsarbus.Config{}, err //nolint:wrapcheck // it names the setting
	}
	return pulsarbus.Config{
		URL:       c.URL.Reveal(),
		AdminURL:  c.AdminURL.Reveal(),
		Tenant:    c.Tenant,
		Namespace: c.Namespace,
		Tokens:    tokens,
		TLS:       client,
	}, nil
}

// prepare repeats do with growing waits until it succeeds. An attempt ends after the limit, if it is
// not 0. Each failed attempt is one line of the log, and /readyz has its error. From then on the
// server's health check is ping.
func (k *Kit) prepare(
	ctx context.Context,
	server string,
	limit time.Duration,
	do, ping func(context.Context) error,
) error {
	silent := errSilent
	if server == mysqlServer {
		silent = errMigrate
	}
	silent = explain(server, k.Settings, silent, false)
	k.Health.SetError(server, fmt.Errorf("%w: %w", errWaiting, silent))
	log := k.Log.With().Str(logging.Server, server).Logger()
	for wait := minWait; ; wait = min(2*wait, maxWait) { //nolint:mnd // doubled
		try, cancel := attempt(ctx, limit)
		slow := time.AfterFunc(slowAttempt, func() {
			log.Warn().Err(silent).Msg("waiting for server")
		})
		err := explain(server, k.Settings, do(try), false)
		slow.Stop()
		temporary := timer.CodeOf(err) == timer.CodeUnavailable || try.Err() != nil
		cancel()
		switch {
		case err == nil:
			k.Health.Set(server, ping)
			log.Info().Msg("server prepared")
			return nil
		case ctx.Err() != nil:
			return fmt.Errorf("waiting for %s: %w", server, context.Cause(ctx))
		case !temporary:
			return fmt.Errorf("preparing %s: %w", server, err)
		}
		k.Health.SetError(server, fmt.Errorf("%w: %w", errWaiting, err))
		log.Warn().Err(err).Msg("waiting for server")
		clock.Pause(ctx, wait)
	}
}

// attempt returns the context of an attempt. It ends after the limit, if that is not 0.
func attempt(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	if limit == 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, limit)
}

// watchWrites shows the last write that a database could not do, for example because its disk is
// full. It is optional: the process may still read.
func (k *Kit) watchWrites(server string, st *sqlstore.Store) {
	k.Health.SetOptional(
		server+" writes",
		func(context.Context) error { return st.LastWriteError() },
	)
}

// watchRedis makes readiness depend on Redis until the first success, for at most redisReadyGrace.
// Afterwards its check is optional.
func (k *Kit) watchRedis() {
	since := time.Now()
	w := k.watchServer(redisServer, k.Window.Ping)
	k.Health.Set("redis at start", func(context.Context) error {
		if time.Since(since) > redisReadyGrace {
			return nil
		}
		return w.checkAtStart()
	})
	k.Health.SetOptional(redisServer, w.check)
	w.start()
}
