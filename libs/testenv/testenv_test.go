package testenv_test

import (
	"database/sql"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/testenv"
)

func TestMySQL(t *testing.T) { //nolint:tparallel // what follows the subtest looks at what it left
	t.Parallel()
	var dsn string
	t.Run("use", func(t *testing.T) {
		dsn = testenv.MySQL(t)
		require.NotEqual(t, dsn, testenv.MySQL(t), "a database for each call")
		db := openDB(t, dsn)
		_, err := db.ExecContext(t.Context(), "CREATE TABLE t (id INT PRIMARY KEY)")
		require.NoError(t, err)
	})
	if dsn != "" {
		require.ErrorContains(t, openDB(t, dsn).PingContext(t.Context()), "Unknown database")
	}
}

func openDB(t *testing.T, dsn string) *sql.DB {
	db, err := sql.Open("mysql", dsn)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

func TestRedis(t *testing.T) { //nolint:tparallel // what follows the subtest looks at what it left
	t.Parallel()
	var addrs []string
	var prefix string
	t.Run("use", func(t *testing.T) {
		addrs, prefix = testenv.Redis(t)
		require.NoError(t, openRedis(t, addrs).Set(t.Context(), prefix+"key", "value", 0).Err())
	})
	if prefix != "" {
		require.ErrorIs(t, openRedis(t, addrs).Get(t.Context(), prefix+"key").Err(), redis.Nil)
	}
}

//nolint:tparallel // what follows the subtest looks at what it left
func TestRedisCluster(t *testing.T) {
	t.Parallel()
	var addrs []string
	var prefix string
	t.Run("use", func(t *testing.T) {
		addrs, prefix = testenv.RedisCluster(t)
		require.Len(t, addrs, 6)
		for _, key := range []string{"{a}", "{b}", "{c}", "{d}"} {
			require.NoError(t, openRedis(t, addrs).Set(t.Context(), prefix+key, "value", 0).Err())
		}
	})
	if prefix != "" {
		require.ErrorIs(t, openRedis(t, addrs).Get(t.Context(), prefix+"{a}").Err(), redis.Nil)
	}
}

func openRedis(t *testing.T, addrs []string) redis.UniversalClient {
	client := redis.NewUniversalClient(&redis.UniversalOptions{Addrs: addrs})
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	return client
}

func TestPulsar(t *testing.T) {
	t.Parallel()
	one, two := testenv.Pulsar(t), testenv.Pulsar(t)
	require.NotEqual(t, one.Namespace, two.Namespace)
	require.Equal(t, one.URL, two.URL)
}
