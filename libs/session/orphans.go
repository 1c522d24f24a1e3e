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
	// claimedAhead is how far ahead of its run a fire can be claimed: what a herd's tasks lead by,
	// and more.
	claimedAhead = time.Minute
	claimedLimit = 500_000
	orphanChunk  = 2000
	// orphanTimeout bounds the read, and each chunk's publication.
	orphanTimeout = 5 * time.Second
)

// Publisher dispatches fires.
type Publisher interface {
	Publish(ctx context.Context, fires []timer.Fire) error
}

// ClaimReader reads what sessions own.
type ClaimReader interface {
	Owned(ctx context.Context, sessions []timer.ID, untilMS int64, limit int) ([]timer.Fire, error)
}

// RecoverOrphans dispatches the open fires that the executors among ended sessions still own, and
// returns how many they were. Whoever ended the sessions calls it; dying before it is done leaves
// the rest to the sweep.
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
		return 0, fmt.Errorf("reading the claims of %d ended sessions: %w", len(ids), err)
	}
	for chunk := range slices.Chunk(fires, orphanChunk) {
		call, cancel := context.WithTimeout(ctx, orphanTimeout)
		err := to.Publish(call, chunk)
		cancel()
		if err != nil {
			return len(
					fires,
				), fmt.Errorf(
					"dispatching %d claims of ended sessions: %w",
					len(fires),
					err,
				)
		}
	}
	return len(fires), nil
}

// OrphanedClaims returns the fires with a run up to untilMS, at most limit, that executors still
// own whose sessions ended less than within ago.
func OrphanedClaims(
	ctx context.Context,
	st OrphanReader,
	within time.Duration,
	untilMS int64,
	limit int,
) ([]timer.Fire, error) {
	ended, err := st.ExpiredSessions(ctx, within)
	if err != nil {
		return nil, err //nolint:wrapcheck // the store says what it was doing
	}
	//nolint:wrapcheck // the store says what it was doing
	return st.Owned(ctx, executors(ended), untilMS, limit)
}

// OrphanReader reads which sessions ended, and what they own.
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

// Shard returns the place of a session among the living of its kind, who divide something between
// them. One that is not among them has all of it: better twice than not.
func Shard(alive []store.Session, kind store.SessionKind, id timer.ID) (place, of int32) {
	found := false
	for _, l := range alive {
		if l.Kind != kind {
			continue
		}
		of++
		if l.ID < id {
			place++
		}
		found = found || l.ID == id
	}
	if !found {
		return 0, 1
	}
	return place, of
}
