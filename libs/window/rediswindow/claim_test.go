package rediswindow_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/testenv"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/libs/window/rediswindow"
)

// TestClaimNamesTheOtherDatabase checks that one database at a time has a prefix, and that its claim
// is renewed by all of its processes.
func TestClaimNamesTheOtherDatabase(t *testing.T) {
	t.Parallel()
	for name, server := range map[string]func(testing.TB) ([]string, string){
		"server": testenv.Redis, "cluster": testenv.RedisCluster,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			addrs, prefix := server(t)
			w := newWindow(t, rediswindow.Options{Addrs: addrs, Prefix: prefix})
			claim := func(database, process string) string {
				t.Helper()
				other, err := w.Claim(t.Context(), database, process)
				require.NoError(t, err)
				return other
			}
			require.Empty(t, claim("d1", "api 1"))
			client := redis.NewUniversalClient(
				&redis.UniversalOptions{Addrs: addrs, IsClusterMode: name == "cluster"},
			)
			t.Cleanup(func() { require.NoError(t, client.Close()) })
			require.NoError(t, client.PExpire(t.Context(), prefix+":database", time.Second).Err())
			require.Empty(t, claim("d1", "executor 1"))
			left, err := client.PTTL(t.Context(), prefix+":database").Result()
			require.NoError(t, err)
			require.Greater(t, left, 4*time.Minute)
			require.Equal(t, "api 1", claim("d", "api 2"))
			require.Equal(t, "api 1", claim("d2", "api 2"))

			require.NoError(t, client.Del(t.Context(), prefix+":database").Err())
			others := make([]string, 8)
			var all sync.WaitGroup
			for i := range others {
				all.Go(func() { others[i], _ = w.Claim(t.Context(), "d"+string(rune('a'+i)), "p") })
			}
			all.Wait()
			require.Equal(
				t,
				7,
				strings.Count(strings.Join(others, ""), "p"),
				"one of those at once wins",
			)
		})
	}
}

// TestClaimWithoutRedis checks what a claim says while Redis is unavailable.
func TestClaimWithoutRedis(t *testing.T) {
	t.Parallel()
	w := newWindow(t, rediswindow.Options{Addrs: []string{"127.0.0.1:1"}, Prefix: "p"})
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err := w.Claim(ctx, "d1", "api 1")
	require.Equal(t, timer.CodeUnavailable, timer.CodeOf(err))
}
