package peers_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/bus"
	"github.com/carillon-timer/carillon/libs/peers"
)

// with starts a process that has these settings.
func (d *deployment) with(name string, settings map[string]string) *process {
	d.t.Helper()
	return d.startWith(name, func(o *peers.Options) { o.Settings = settings })
}

// pass lets time pass, until all processes wait.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// TestProcessesWithOtherSettings checks that all processes report a setting in which they differ,
// until they agree again.
func TestProcessesWithOtherSettings(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := setup(t)
		ctx := t.Context()
		api := d.with("api/1", map[string]string{
			"redis-prefix": "carillon", "zone": "UTC", peers.EncryptionKeys: "k1:aa",
		})
		migrator := d.with("migrator/1", map[string]string{"redis-prefix": "carillon"})
		pass(30 * time.Second)
		require.NoError(t, api.CheckDeployment(ctx))
		require.Empty(t, api.log.String())

		executor := d.with("executor/1", map[string]string{
			"redis-prefix": "other", peers.EncryptionKeys: "",
		})
		pass(30 * time.Second)
		for _, p := range []*process{api, migrator, executor} {
			require.EqualError(
				t,
				p.CheckDeployment(ctx),
				`encryption-keys: expected the key "k1:aa" in all processes, because one encrypts with it, found it missing in executor/1: add it there`+
					"\n"+`redis-prefix: expected the same value in all processes, found "carillon" (api/1, migrator/1) and "other" (executor/1): set it alike and restart those`,
			)
			require.Equal(t, 2, strings.Count(p.log.String(), "do not belong together"))
			require.InDelta(t, 2, p.metrics(t)["carillon_deployment_conflicts"], 0)
		}
		require.Equal(t, []string{"api/1", "migrator/1", "executor/1"}, api.Deployment().Processes)
		require.Equal(t, api.Deployment(), executor.Deployment())

		executor.kill()
		require.NoError(t, executor.Close(ctx))
		d.with("executor/2", map[string]string{
			"redis-prefix": "carillon", peers.EncryptionKeys: "k1:aa,k2:bb",
		})
		pass(30 * time.Second)
		require.NoError(
			t,
			api.CheckDeployment(ctx),
			"a second key is added before any process encrypts with it",
		)
		require.Equal(
			t,
			1,
			strings.Count(api.log.String(), "all processes of the deployment belong together"),
		)
	})
}

// TestKeysOfOneIDThatDiffer checks that two keys of one id are told apart, and that the change of
// the first key is reported while a process lacks it.
func TestKeysOfOneIDThatDiffer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := setup(t)
		one := d.with("one/1", map[string]string{peers.EncryptionKeys: "k1:aa"})
		d.with("two/2", map[string]string{peers.EncryptionKeys: "k1:bb"})
		pass(30 * time.Second)
		require.EqualError(
			t,
			one.CheckDeployment(t.Context()),
			`encryption-keys: expected the key "k1:aa" in all processes, because one encrypts with it, found it missing in two/2: add it there`+
				"\n"+`encryption-keys: expected the key "k1:bb" in all processes, because one encrypts with it, found it missing in one/1: add it there`,
		)
	})
}

// TestOtherDatabaseOnOneRedisOrPulsar has the processes of two databases on one prefix and one
// namespace.
func TestOtherDatabaseOnOneRedisOrPulsar(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		var mu sync.Mutex
		var owner, claimed string
		var all []*process
		shared := func(o *peers.Options) {
			o.ClaimPrefix = func(_ context.Context, database, process string) (string, error) {
				mu.Lock()
				defer mu.Unlock()
				if owner == "" {
					owner, claimed = database, process
				}
				if owner == database {
					return "", nil
				}
				return claimed, nil
			}
			o.Publish = func(_ context.Context, messages ...bus.Message) error {
				mu.Lock()
				defer mu.Unlock()
				for _, m := range messages {
					for _, p := range all {
						require.True(t, p.Heard(m))
					}
				}
				return nil
			}
		}
		add := func(p *process) {
			mu.Lock()
			defer mu.Unlock()
			all = append(all, p)
		}
		add(setup(t).startWith("right/1", shared))
		pass(3 * time.Minute)
		require.NoError(t, all[0].CheckDeployment(ctx))
		require.False(t, all[0].Heard(bus.Message{Payload: []byte("a changed timer")}))

		add(setup(t).startWith("wrong/1", shared))
		pass(3 * time.Minute)
		require.NotEqual(t, all[0].Deployment().Database, all[1].Deployment().Database)
		require.ErrorContains(
			t,
			all[0].CheckDeployment(ctx),
			"pulsar-namespace: expected one database for each namespace, found another one in use by wrong/1",
		)
		require.ErrorContains(
			t,
			all[1].CheckDeployment(ctx),
			"redis-prefix: expected one database for each prefix, found another one in use by right/1",
		)
		require.ErrorContains(
			t,
			all[1].CheckDeployment(ctx),
			"for each namespace, found another one in use by right/1",
		)

		all[1].kill()
		pass(5 * time.Minute)
		require.NoError(t, all[0].CheckDeployment(ctx), "it has gone")
	})
}

// TestServersThatCannotBeToldOfTheDatabase checks that a process goes on without Redis and Pulsar.
func TestServersThatCannotBeToldOfTheDatabase(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := setup(t)
		p := d.startWith("one/1", func(o *peers.Options) {
			o.ClaimPrefix = func(ctx context.Context, _, _ string) (string, error) {
				<-ctx.Done()
				return "", ctx.Err()
			}
			o.Publish = func(ctx context.Context, _ ...bus.Message) error {
				<-ctx.Done()
				return ctx.Err()
			}
		})
		pass(5 * time.Minute)
		require.NoError(t, p.CheckDeployment(t.Context()))
		require.Equal(t, []string{"one/1"}, p.Deployment().Processes, "it is renewed in time")
	})
}
