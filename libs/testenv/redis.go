package testenv

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// Redis returns the addresses of a Redis server and a key prefix for the test. The keys are removed
// when the test ends.
func Redis(t testing.TB) (addrs []string, prefix string) {
	t.Helper()
	return redisPrefix(
		t,
		"redis",
		"CARILLON_TEST_REDIS_ADDRS",
		func(addrs []string) redis.UniversalClient {
			return redis.NewClient(&redis.Options{Addr: addrs[0]})
		},
	)
}

// RedisTLS is like Redis at a port that demands TLS with a client certificate.
func RedisTLS(t testing.TB) (addrs []string, prefix string, c *Certificates) {
	t.Helper()
	addrs = strings.Split(require(t, "redis", "CARILLON_TEST_REDIS_TLS_ADDRS"), ",")
	_, prefix = Redis(t)
	return addrs, prefix, certificates(t, "redis")
}

// RedisCluster is like Redis for a cluster of several nodes.
func RedisCluster(t testing.TB) (addrs []string, prefix string) {
	t.Helper()
	return redisPrefix(
		t,
		"redis-cluster",
		"CARILLON_TEST_REDIS_CLUSTER_ADDRS",
		func(addrs []string) redis.UniversalClient {
			return redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs})
		},
	)
}

// RedisSentinel is like Redis for a master that sentinels watch. It returns the addresses of the
// sentinels.
func RedisSentinel(t testing.TB) (addrs []string, prefix, master string) {
	t.Helper()
	master = require(t, "redis-sentinel", "CARILLON_TEST_REDIS_SENTINEL_MASTER")
	addrs, prefix = redisPrefix(
		t,
		"redis-sentinel",
		"CARILLON_TEST_REDIS_SENTINEL_ADDRS",
		func(addrs []string) redis.UniversalClient {
			return redis.NewFailoverClient(
				&redis.FailoverOptions{SentinelAddrs: addrs, MasterName: master},
			)
		},
	)
	return addrs, prefix, master
}

func redisPrefix(
	t testing.TB, server, variable string, open func(addrs []string) redis.UniversalClient,
) (addrs []string, prefix string) {
	t.Helper()
	addrs = strings.Split(require(t, server, variable), ",")
	prefix = unique() + ":"
	t.Cleanup(func() {
		client := open(addrs)
		defer func() { _ = client.Close() }()
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		if err := remove(ctx, client, prefix); err != nil {
			t.Errorf("removing the keys with the prefix %s: %v", prefix, err)
		}
	})
	return addrs, prefix
}

// remove deletes the keys with a prefix on every node.
func remove(ctx context.Context, client redis.UniversalClient, prefix string) error {
	cluster, ok := client.(*redis.ClusterClient)
	if !ok {
		return removeOn(ctx, client, prefix)
	}
	return cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
		return removeOn(ctx, node, prefix)
	})
}

func removeOn(ctx context.Context, node redis.UniversalClient, prefix string) error {
	keys := node.Scan(ctx, 0, prefix+"*", 1000).Iterator()
	var errs []error
	for keys.Next(ctx) {
		// One by one: the keys of a cluster node are in different slots.
		errs = append(errs, node.Unlink(ctx, keys.Val()).Err())
	}
	return errors.Join(append(errs, keys.Err())...)
}
