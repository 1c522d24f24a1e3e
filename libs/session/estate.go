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
	// claimedAhead is how far ahead of its run a fire can be claimed: what a herd's tasks lead by, and more.
	claimedAhead = time.Minute
	claimedLimit = 500_000
	estateChunk  = 2000
	// estateTimeout bounds the read, and each chunk's publication.
	estateTimeout = 5 * time.Second
)

// Publisher dispatches fires.
type Publisher interface {
	Publish(ctx context.Context, fires []timer.Fire) error
}

// Owner reads what sessions own.
type Owner interface {
	Owned(ctx context.Context, sessions []timer.ID, untilMS int64, limit int) ([]timer.Fire, error)
}

// Inherit dispatches the open fires that the executors among ended sessions still own, and returns how many they were. Whoever ended the
// sessions calls it; dying before it is done leaves the rest to the sweep.
func Inherit(ctx context.Context, st Owner, to Publisher, ended []store.Session, now time.Time) (int, error) {
	var ids []timer.ID
	for _, e := range ended {
		if e.Kind == store.ExecutorSession {
			ids = append(ids, e.ID)
		}
	}
	if len(ids) == 0 {
		return 0, nil
	}
	call, cancel := context.WithTimeout(ctx, estateTimeout)
	fires, err := st.Owned(call, ids, now.Add(claimedAhead).UnixMilli(), claimedLimit)
	cancel()
	if err != nil {
		return 0, fmt.Errorf("reading the claims of %d ended sessions: %w", len(ids), err)
	}
	for chunk := range slices.Chunk(fires, estateChunk) {
		call, cancel := context.WithTimeout(ctx, estateTimeout)
		err := to.Publish(call, chunk)
		cancel()
		if err != nil {
			return len(fires), fmt.Errorf("dispatching %d claims of ended sessions: %w", len(fires), err)
		}
	}
	return len(fires), nil
}
