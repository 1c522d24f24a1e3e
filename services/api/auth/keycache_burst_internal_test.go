package auth

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/api/requests"
)

// keyStore has some keys, and counts lookups.
type keyStore struct {
	has     map[string]bool
	lookups int
}

func (s *keyStore) lookup(_ context.Context, id string) (store.APIKey, error) {
	s.lookups++
	if !s.has[id] {
		return store.APIKey{}, timer.NotFound("key", id)
	}
	return store.APIKey{ID: id}, nil
}

func from(t *testing.T, remote string) context.Context {
	t.Helper()
	return requests.WithRemote(t.Context(), remote)
}

// TestGuessedKeysDoNotBlockValidKeys checks that guesses use up only the lookups of their own
// address.
func TestGuessedKeysDoNotBlockValidKeys(t *testing.T) {
	t.Parallel()
	s := &keyStore{has: map[string]bool{"good": true, "other": true, "third": true}}
	c := newKeyCache(s.lookup, requests.NewSlots(1000))
	now := time.Now()
	c.now = func() time.Time { return now }
	is := func(remote, id string) error {
		_, found, err := c.get(from(t, remote), id)
		if err == nil {
			require.Equal(t, s.has[id], found)
		}
		return err
	}
	burst := func(n int, remote func(i int) string) (refused int) {
		for i := range n {
			if is(remote(i), fmt.Sprint("guess", s.lookups, i)) != nil {
				refused++
			}
		}
		return refused
	}
	require.Equal(
		t,
		300-lookupsPerAddress,
		burst(300, func(i int) string { return fmt.Sprint("10.0.0.1:", 1000+i) }),
	)
	require.Equal(t, lookupsPerAddress, s.lookups)
	require.NoError(t, is("10.0.0.2:1", "good"), "from elsewhere")
	require.NoError(t, is("10.0.0.1:1", "good"), "what is known costs nothing")
	require.Error(t, is("10.0.0.1:1", "other"))
	require.Equal(
		t,
		300-lookupsPerAddress,
		burst(300, func(i int) string { return fmt.Sprintf("[2001:db8::%x]:1", i+1) }),
		"a /64 is one",
	)
	require.NoError(t, is("[2001:db8:0:1::1]:1", "other"))

	now = now.Add(time.Second)
	require.Equal(
		t,
		3000-lookupsPerSecond,
		burst(3000, func(i int) string { return fmt.Sprintf("10.1.%d.%d:1", i/200, i%200) }),
		"all together",
	)
	require.Error(t, is("10.0.0.3:1", "third"))
	require.NoError(t, is("10.0.0.3:1", "good"), "a known one is asked for again all the same")
	now = now.Add(time.Second)
	require.NoError(t, is("10.0.0.3:1", "third"))
}

// TestKeysBehindABalancer checks that valid keys from one address do not limit each other.
func TestKeysBehindABalancer(t *testing.T) {
	t.Parallel()
	s := &keyStore{has: map[string]bool{}}
	c := newKeyCache(s.lookup, requests.NewSlots(1000))
	for i := range 500 {
		id := fmt.Sprint("app", i)
		s.has[id] = true
		_, found, err := c.get(from(t, "10.0.0.1:1"), id)
		require.NoError(t, err)
		require.True(t, found)
	}
}

// TestGuessedKeysEvictNoCachedKeys checks that guesses evict no cached key, and that both caches
// are bounded.
func TestGuessedKeysEvictNoCachedKeys(t *testing.T) {
	t.Parallel()
	s := &keyStore{has: map[string]bool{"good": true}}
	c := newKeyCache(s.lookup, requests.NewSlots(1000))
	now := time.Now()
	c.now = func() time.Time { return now }
	get := func(remote, id string) {
		_, _, err := c.get(from(t, remote), id)
		require.NoError(t, err)
	}
	get("10.0.0.1:1", "good")
	for i := range 3 * maxCachedKeys {
		get(fmt.Sprintf("10.%d.%d.2:1", 1+i/200, i%200), fmt.Sprint("guess", i))
		now = now.Add(2 * time.Millisecond)
		require.NotNil(t, c.known["good"])
		require.LessOrEqual(t, len(c.unknown), maxCachedKeys)
	}
	for i := range 2 * maxCachedKeys {
		id := fmt.Sprint("app", i)
		s.has[id] = true
		get(fmt.Sprintf("10.%d.%d.3:1", 1+i/200, i%200), id)
		now = now.Add(2 * time.Millisecond)
		require.LessOrEqual(t, len(c.known), maxCachedKeys)
		require.NotNil(t, c.known[id])
	}
}

// TestRevokedKeyIsNotCachedByAnEarlierLookup revokes a key while another request looks it up.
func TestRevokedKeyIsNotCachedByAnEarlierLookup(t *testing.T) {
	t.Parallel()
	var c *keyCache
	lookups := 0
	c = newKeyCache(func(context.Context, string) (store.APIKey, error) {
		if lookups++; lookups == 1 {
			c.invalidate("k") // after the lookup has read the key
			return store.APIKey{ID: "k"}, nil
		}
		return store.APIKey{ID: "k", RevokedMS: 1}, nil
	}, requests.NewSlots(1))
	for _, revoked := range []int64{0, 1} {
		k, found, err := c.get(from(t, "10.0.0.1:1"), "k")
		require.NoError(t, err)
		require.True(t, found)
		require.Equal(t, revoked, k.RevokedMS)
	}
}

// TestCachedKeysNeedNoSlot looks up no key that was known a moment ago while all lookups hang.
func TestCachedKeysNeedNoSlot(t *testing.T) {
	t.Parallel()
	s := &keyStore{has: map[string]bool{"good": true, "other": true}}
	slots := requests.NewSlots(1)
	c := newKeyCache(s.lookup, slots)
	now := time.Now()
	c.now = func() time.Time { return now }
	_, found, err := c.get(from(t, "10.0.0.1:1"), "good")
	require.NoError(t, err)
	require.True(t, found)
	require.True(t, slots.TryAcquire())
	now = now.Add(keyStaleTTL - time.Millisecond)
	_, found, err = c.get(from(t, "10.0.0.1:1"), "good")
	require.NoError(t, err)
	require.True(t, found)
	_, _, err = c.get(from(t, "10.0.0.1:1"), "other")
	require.ErrorIs(t, err, errTooMany)
	now = now.Add(time.Millisecond)
	_, _, err = c.get(from(t, "10.0.0.1:1"), "good")
	require.ErrorIs(t, err, errTooMany)
	slots.Release()
	_, found, err = c.get(from(t, "10.0.0.1:1"), "good")
	require.NoError(t, err)
	require.True(t, found)
}
