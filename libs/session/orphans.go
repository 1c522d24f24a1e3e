package session

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

const (
	// claimedAhead is how long before its run time a fire may be claimed: more than the lead of a
	// burst's tasks.
	claimedAhead = time.Minute
	claimedLimit = 500_000
	orphanChunk  = 2000
	// orphanTimeout bounds the read, and the publication of each chunk.
	orphanTimeout = 5 * time.Second
)

// Publisher dispatches fires.
type Publisher interface {
	Publish(ctx context.Context, fires []timer.Fire) error
}

// ClaimReader reads the fires that sessions own.
type ClaimReader interface {
	Owned(ctx context.Context, sessions []timer.ID, untilMS int64, limit int) ([]timer.Fire, error)
}

// RecoverOrphans dispatches the open fires that expired executor sessions still own, and returns
// their number. The process that expired the sessions calls it. If it dies before the end, the
// sweep finds the rest.
func RecoverOrphans(
	ctx context.Context,
	st ClaimReader,
	to Publisher,
	ended []store.Session,
	now time.Time,
) (int, error) {
	ids := executors(ended)
	if len(ids) == 0 {
		return 0, nil
	}
	call, cancel := context.WithTimeout(ctx, orphanTimeout)
	fires, err := st.Owned(call, ids, now.Add(claimedAhead).UnixMilli(), claimedLimit)
	cancel()
	if err != nil {
		return 0, fmt.Errorf("reading the claims of %d expired sessions: %w", len(ids), err)
	}
	for chunk := range slices.Chunk(fires, orphanChunk) {
		call, cancel := context.WithTimeout(ctx, orphanTimeout)
		err := to.Publish(call, chunk)
		cancel()
		if err != nil {
			return len(
					fires,
				), fmt.Errorf(
					"dispatching %d claims of expired sessions: %w",
					len(fires),
					err,
				)
		}
	}
	return len(fires), nil
}

// OrphanedClaims returns at most limit fires with a run time up to untilMS that are still owned by
// executor sessions that expired less than within ago.
func OrphanedClaims(
	ctx context.Context,
	st OrphanReader,
	within time.Duration,
	untilMS int64,
	limit int,
) ([]timer.Fire, error) {
	ended, err := st.ExpiredSessions(ctx, within)
	if err != nil {
		return nil, err //nolint:wrapcheck // the store says what failed
	}
	//nolint:wrapcheck // the store says what failed
	return st.Owned(ctx, executors(ended), untilMS, limit)
}

// OrphanReader reads the expired sessions and their claims.
type OrphanReader interface {
	ClaimReader
	ExpiredSessions(ctx context.Context, within time.Duration) ([]store.Session, error)
}

func executors(sessions []store.Session) (ids []timer.ID) {
	for _, e := range sessions {
		if e.Kind == store.ExecutorSession {
			ids = append(ids, e.ID)
		}
	}
	return ids
}
