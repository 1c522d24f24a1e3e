package signin

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

type endsFixture struct {
	*Ends

	at     time.Time
	stored map[string]int64
	reads  int
	err    error
}

func newEndsFixture() *endsFixture {
	f := &endsFixture{at: time.Now(), stored: map[string]int64{}}
	f.Ends = NewEnds(func(_ context.Context, subject string) (int64, error) {
		f.reads++
		return f.stored[subject], f.err
	})
	f.now = func() time.Time { return f.at }
	return f
}

func (f *endsFixture) before(t *testing.T, subject string) int64 {
	t.Helper()
	at, err := f.Before(t.Context(), subject)
	require.NoError(t, err)
	if at.IsZero() {
		return 0
	}
	return at.UnixMilli()
}

func TestEndsAreReadOnceASecond(t *testing.T) {
	t.Parallel()
	f := newEndsFixture()
	for range 3 {
		require.Zero(t, f.before(t, "ada"))
	}
	require.Equal(t, 1, f.reads)
	f.stored["ada"] = 70
	require.Zero(t, f.before(t, "ada"))
	f.at = f.at.Add(endTTL)
	require.EqualValues(t, 70, f.before(t, "ada"))
	f.stored["ada"] = 80
	f.Forget("ada")
	require.EqualValues(t, 80, f.before(t, "ada"))
	f.stored["ada"] = 90
	at, err := f.Now(t.Context(), "ada")
	require.NoError(t, err)
	require.EqualValues(t, 90, at.UnixMilli())
	require.EqualValues(t, 90, f.before(t, "ada"))
	require.Zero(t, f.before(t, "bob"))
}

// TestEndIsNotHiddenByAnEarlierRead ends the sessions of a person while a request reads since when
// they count.
func TestEndIsNotHiddenByAnEarlierRead(t *testing.T) {
	t.Parallel()
	var e *Ends
	reads := int64(0)
	e = NewEnds(func(context.Context, string) (int64, error) {
		if reads++; reads == 1 {
			e.Forget("ada") // after this read
		}
		return 70 * (reads - 1), nil
	})
	at, err := e.Before(t.Context(), "ada")
	require.NoError(t, err)
	require.True(t, at.IsZero())
	at, err = e.Before(t.Context(), "ada")
	require.NoError(t, err)
	require.EqualValues(t, 70, at.UnixMilli())
}

func TestEndsWhileTheStoreFails(t *testing.T) {
	t.Parallel()
	f := newEndsFixture()
	f.stored["ada"] = 70
	require.EqualValues(t, 70, f.before(t, "ada"))
	f.err = errors.New("down")
	f.at = f.at.Add(endStaleTTL - time.Millisecond)
	require.EqualValues(t, 70, f.before(t, "ada"))
	_, err := f.Before(t.Context(), "bob")
	require.Error(t, err)
	f.at = f.at.Add(time.Millisecond)
	_, err = f.Before(t.Context(), "ada")
	require.Error(t, err)
	_, err = f.Now(t.Context(), "ada")
	require.Error(t, err)
	f.err = nil
	require.EqualValues(t, 70, f.before(t, "ada"))
}

// TestEndsOfManyPersons checks that the memory for persons is bounded.
func TestEndsOfManyPersons(t *testing.T) {
	t.Parallel()
	f := newEndsFixture()
	for i := range 3 * maxEnds {
		f.before(t, fmt.Sprint(i))
		f.at = f.at.Add(endTTL / maxEnds * time.Duration(i/maxEnds))
		require.LessOrEqual(t, len(f.known), maxEnds)
	}
}

// TestEndsWhileARefreshWaits checks that a store that hangs delays one request, and no others.
func TestEndsWhileARefreshWaits(t *testing.T) {
	t.Parallel()
	f := newEndsFixture()
	require.Zero(t, f.before(t, "ada"))
	f.at = f.at.Add(endTTL)
	entered, leave := make(chan struct{}), make(chan struct{})
	f.read = func(context.Context, string) (int64, error) {
		close(entered)
		<-leave
		return 70, nil
	}
	done := make(chan int64)
	go func() {
		at, _ := f.Before(context.WithoutCancel(t.Context()), "ada")
		done <- at.UnixMilli()
	}()
	<-entered
	require.Zero(t, f.before(t, "ada"), "what was read before counts meanwhile")
	close(leave)
	require.EqualValues(t, 70, <-done)
	require.EqualValues(t, 70, f.before(t, "ada"))
}
