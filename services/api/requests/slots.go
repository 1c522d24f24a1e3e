package requests

import (
	"context"
	"net/http"
	"time"

	"github.com/carillon-timer/carillon/services/api/problem"
)

// Slots limits concurrent requests at one place.
type Slots chan struct{}

// NewSlots returns n free slots.
func NewSlots(n int) Slots { return make(Slots, n) }

// TryAcquire takes a slot, if one is free.
func (s Slots) TryAcquire() bool {
	select {
	case s <- struct{}{}:
		return true
	default:
		return false
	}
}

// Acquire waits for a slot, until limit has passed or ctx ends. It reports whether it took one.
func (s Slots) Acquire(ctx context.Context, limit time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	select {
	case s <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// Release frees a slot that was taken.
func (s Slots) Release() { <-s }

// Bounded answers 503 while all slots are taken.
func Bounded(s Slots) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !s.TryAcquire() {
				TooMany(w, r)
				return
			}
			defer s.Release()
			next.ServeHTTP(w, r)
		})
	}
}

const tooMany = "too many requests are in progress: repeat the request, with the same " +
	"Idempotency-Key if it had one"

// TooMany answers that no slot is free.
func TooMany(w http.ResponseWriter, r *http.Request) {
	problem.Refuse(
		w,
		r,
		problem.Fault{Status: http.StatusServiceUnavailable, Msg: tooMany},
	)
}
