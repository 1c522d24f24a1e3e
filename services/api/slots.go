package api

import "net/http"

// slots limits concurrent requests at one place. Requests above the limit are refused; none waits.
type slots chan struct{}

func newSlots(n int) slots { return make(slots, n) }

func (s slots) tryAcquire() bool {
	select {
	case s <- struct{}{}:
		return true
	default:
		return false
	}
}

func (s slots) release() { <-s }

// bounded answers 503 while all slots are taken.
func bounded(s slots) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !s.tryAcquire() {
				tooMany(w, r)
				return
			}
			defer s.release()
			next.ServeHTTP(w, r)
		})
	}
}

func tooMany(w http.ResponseWriter, r *http.Request) {
	refuse(w, r, fault{status: http.StatusServiceUnavailable, msg: "too many requests at once"})
}
