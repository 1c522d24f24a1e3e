package wiring

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/carillon-timer/carillon/libs/bus"
	"github.com/carillon-timer/carillon/libs/bus/membus"
	"github.com/carillon-timer/carillon/libs/store/sqlstore"
	"github.com/carillon-timer/carillon/libs/window/memwindow"
)

// OpenEmbedded opens a SQLite file in the data directory and an in-memory bus and window. It logs a
// warning for each server that is set and that it does not use: who set it may expect the data there.
func OpenEmbedded(ctx context.Context, k *Kit) error {
	for _, name := range []string{"mysql-dsn", "redis-addrs", "pulsar-url"} {
		if source := k.ignored(name); source != "" {
			k.Log.Warn().Str("setting", name).Str("source", source).
				Str("data_dir", k.Settings.Data.Dir).
				Msg("setting ignored: this process uses no servers and keeps its data in data-dir")
		}
	}
	st, err := sqlstore.OpenSQLite(
		ctx,
		sqlstore.SQLiteOptions{Dir: k.Settings.Data.Dir, Logger: k.Log},
	)
	if err != nil {
		return sqliteError("opening", k.Settings.Data.Dir, err)
	}
	k.Store = st
	k.Process.OnClose("sqlite", func(context.Context) error { return st.Close() })
	if err := st.Migrate(ctx); err != nil {
		return sqliteError("preparing", k.Settings.Data.Dir, err)
	}
	k.Health.Set("sqlite", st.Ping)
	k.watchWrites("sqlite", st)
	if k.Keyring == nil {
		if k.Keyring, err = loadOrCreateKeyring(ctx, k.Settings.Data.Dir, st); err != nil {
			return err
		}
	} else if file := filepath.Join(k.Settings.Data.Dir, keyringFile); exists(file) {
		k.Log.Warn().Str("file", file).
			Msg("keys ignored: encryption-keys or encryption-keys-file is set, which must have them too while secrets are under them")
	}
	if !k.Settings.Callback.AllowsLoopback() {
		k.Log.Info().
			Msg("timers may not call this machine: carillon app allow 127.0.0.1:8080 opens a port for an app")
	}

	w := memwindow.New(memwindow.Options{})
	k.Window = w
	k.Process.OnClose("window", func(context.Context) error { return w.Close() })

	broker := membus.NewBroker(membus.Options{Log: k.Log})
	b := broker.Bus("all-in-one")
	k.Bus, k.BusInMemory = b, true
	k.Process.OnClose("bus", func(context.Context) error { return broker.Close() })
	if err := b.Setup(ctx, bus.Topics(bus.DefaultTaskPartitions)); err != nil {
		return fmt.Errorf("preparing the bus: %w", err)
	}
	return nil
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}
