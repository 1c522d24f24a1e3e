package storetest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// putIfAbsentKeepsTheFirst tests the keys of calls other than Create.
func putIfAbsentKeepsTheFirst(t *testing.T, s *setup) {
	t.Helper()
	_, err := s.st().PutIfAbsent(t.Context(), "shop", "\x01key", nil, 1)
	requireCode(t, timer.CodeNotFound, err)
	_, err = s.st().App(t.Context(), "shop")
	requireCode(t, timer.CodeNotFound, err)
	for _, app := range []string{"shop", "desk"} {
		_, err := s.st().PutSettings(t.Context(), app, store.AppSettings{}, 0)
		require.NoError(t, err)
	}
	const calls = 12
	var mu sync.Mutex
	kept := map[int64]bool{}
	s.together(calls, func(ctx context.Context, i int, st store.Store) error {
		v, err := st.PutIfAbsent(ctx, "shop", "\x01key", []byte("h"), int64(100+i))
		mu.Lock()
		defer mu.Unlock()
		kept[v] = true
		return err //nolint:wrapcheck // the test tells it
	})
	require.Len(t, kept, 1, "all calls return the same value")
	for _, other := range [][2]string{{"shop", "\x01other"}, {"desk", "\x01key"}} {
		v, err := s.st().PutIfAbsent(t.Context(), other[0], other[1], nil, 7)
		require.NoError(t, err)
		require.EqualValues(t, 7, v)
	}

	// Another request under a key is a conflict, and leaves the key as it is.
	for _, hash := range [][]byte{[]byte("of another"), nil} {
		_, err = s.st().PutIfAbsent(t.Context(), "shop", "\x01key", hash, 1)
		requireCode(t, timer.CodeConflict, err)
		require.Equal(t, store.KeyTaken(), err)
	}
	_, err = s.st().PutIfAbsent(t.Context(), "shop", "\x01other", []byte("h"), 1)
	requireCode(t, timer.CodeConflict, err)
	v, err := s.st().PutIfAbsent(t.Context(), "shop", "\x01key", []byte("h"), 1)
	require.NoError(t, err)
	require.True(t, kept[v])

	// Of different requests at once, those of one hash get its value, and the others a conflict.
	outcomes := map[string]int{}
	s.together(calls, func(ctx context.Context, i int, st store.Store) error {
		hash := [][]byte{{0}, {1}}[i%2]
		v, err := st.PutIfAbsent(ctx, "shop", "\x01contended", hash, int64(i%2))
		mu.Lock()
		defer mu.Unlock()
		if timer.CodeOf(err) == timer.CodeConflict {
			outcomes["conflict"]++
			return nil
		}
		outcomes[fmt.Sprint("value ", v)]++
		return err //nolint:wrapcheck // the test tells it
	})
	require.Len(t, outcomes, 2, "one of the requests has the key")
	require.Equal(t, calls/2, outcomes["conflict"])

	// Keys of Create are separate.
	made, err := s.st().Create(t.Context(), []store.NewTimer{
		{
			App:            "shop",
			Name:           "keyed",
			IdempotencyKey: "key",
			RequestHash:    []byte{1},
			Definition: timer.Definition{
				Schedule: timer.Schedule{
					Kind:  timer.KindDelay,
					Delay: timer.Duration(time.Hour),
				},
				Retry: timer.DefaultRetry(),
			},
		},
	}, nil)
	require.NoError(t, err)
	require.NoError(t, made[0].Err)
	require.False(t, made[0].Existing)
}
