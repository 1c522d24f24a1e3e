package session

import (
	"context"
	"time"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

const (
	// claimedAhead is how far ahead of its run a fire can be claimed: what a herd's tasks lead by, and more.
	claimedAhead = time.Minute
	claimedLimit = 500_000
)

// Owner reads what sessions own.
type Owner interface {
	Owned(ctx context.Context, sessions []timer.ID, untilMS int64, limit int) ([]timer.Fire, error)
}

// Estate returns the open fires that the executors among ended sessions still own: whoever ended them dispatches these again.
func Estate(ctx context.Context, st Owner, ended []store.Session, now time.Time) ([]timer.Fire, error) {
	var ids []timer.ID
	for _, e := range ended {
		if e.Kind == store.ExecutorSession {
			ids = append(ids, e.ID)
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	return st.Owned(ctx, ids, now.Add(claimedAhead).UnixMilli(), claimedLimit) //nolint:wrapcheck // the store says what it was doing
}
