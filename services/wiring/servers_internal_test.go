package wiring

import (
	"context"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/health"
)

// TestAMigrationMayTakeLong checks that the preparation of MySQL is one attempt, however long it
// takes: the server would go on with a change that was cut off.
func TestAMigrationMayTakeLong(t *testing.T) {
	t.Parallel()
	for limit, want := range map[time.Duration]int{0: 1, time.Minute: 2} {
		synctest.Test(t, func(t *testing.T) {
			k := &Kit{Settings: &Settings{}, Health: health.New(0), Log: zerolog.New(io.Discard)}
			attempts := 0
			do := func(ctx context.Context) error {
				attempts++
				if attempts > 1 {
					return nil
				}
				select {
				case <-ctx.Done():
					return context.Cause(ctx)
				case <-time.After(time.Hour):
					return nil
				}
			}
			ping := func(context.Context) error { return nil }
			require.NoError(t, k.prepare(t.Context(), mysqlServer, limit, do, ping))
			require.Equal(t, want, attempts)
		})
	}
}
