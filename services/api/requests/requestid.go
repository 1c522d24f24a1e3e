package requests

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"net/http"
)

// RequestIDHeader has the id of a request, and of its answer.
const RequestIDHeader = "X-Request-ID"

const (
	maxRequestID   = 128 // bytes
	requestIDBytes = 16  // of an id that the API chooses
)

type requestIDKey struct{}

// IdentifyRequest gives each request an id and answers it: the one that the caller sent, if it is
// short and plain text, or a new one. A caller may send the same id twice, so it only helps to find
// things.
func IdentifyRequest(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := r.Header.Get(RequestIDHeader)
		if !validRequestID(id) {
			var random [requestIDBytes]byte
			_, _ = rand.Read(random[:]) // it never fails
			id = hex.EncodeToString(random[:])
		}
		w.Header().Set(RequestIDHeader, id)
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), requestIDKey{}, id)))
	})
}

func validRequestID(id string) bool {
	if id == "" || len(id) > maxRequestID {
		return false
	}
	for i := range len(id) {
		if id[i] <= ' ' || id[i] > '~' {
			return false
		}
	}
	return true
}

// RequestID returns the id of a request, or an empty text.
func RequestID(ctx context.Context) string {
	id, _ := ctx.Value(requestIDKey{}).(string)
	return id
}
