package problem

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"

	"github.com/carillon-timer/carillon/libs/apikey"
	"github.com/carillon-timer/carillon/services/api/input"
)

// ScopeError says that the key lacks a scope.
type ScopeError struct {
	Needed     apikey.Scope
	Deployment bool // no key of an app suffices
}

func (e *ScopeError) Error() string {
	if e.Deployment {
		return fmt.Sprintf("this needs a key of the deployment, of scope %s", e.Needed)
	}
	return fmt.Sprintf("this needs a key of scope %s", e.Needed)
}

// V1Type is the content type of v1's answers.
const V1Type = "application/json; charset=utf-8"

// V1 begins the body of every answer of v1.
type V1 struct {
	Code int    `json:"code"` // 0, or the HTTP status
	Msg  string `json:"msg"`
}

// BodyFault returns the error for a body that could not be read.
func BodyFault(err error, most int) Fault {
	if _, tooLong := errors.AsType[*http.MaxBytesError](err); tooLong {
		return Fault{
			Status: http.StatusRequestEntityTooLarge,
			Msg:    fmt.Sprintf("the body is longer than %d bytes", most),
		}
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return Fault{
			Status: http.StatusRequestTimeout,
			Msg:    "the body did not come in time: send it at once",
		}
	}
	return Fault{Status: http.StatusBadRequest, Msg: "the body could not be read to its end"}
}

// Refuse answers with an error in the form of the requested API version.
func Refuse(w http.ResponseWriter, r *http.Request, f Fault) {
	if strings.HasPrefix(r.URL.Path, input.V1Prefix) {
		SetRetryAfter(w.Header(), f.Status)
		WriteJSON(w, f.Status, V1Type, V1{Code: f.Status, Msg: f.Msg})
		return
	}
	SetRetryAfter(w.Header(), f.Status)
	WriteJSON(w, f.Status, "application/problem+json", Of(f))
}

// SetRetryAfter says when to retry, where a status is of a server that is unavailable.
func SetRetryAfter(h http.Header, status int) {
	if status == http.StatusServiceUnavailable {
		h.Set("Retry-After", RetryAfter)
	}
}

// WriteJSON answers with a body.
func WriteJSON(w http.ResponseWriter, status int, contentType string, v any) {
	w.Header().Set("Content-Type", contentType)
	w.WriteHeader(status)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v) // the client is gone: nobody to tell
}
