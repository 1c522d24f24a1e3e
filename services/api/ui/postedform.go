package ui

import (
	"errors"
	"net/http"
	"os"

	"github.com/carillon-timer/carillon/services/api/input"
)

// MaxFormBytes limits the form of the editor. It has a definition as YAML twice, and the body of a
// target once more. Of a definition that the API takes, each byte is up to six here: a DEL is
// %5Cx7F.
const MaxFormBytes = 13 * input.MaxRequestBytes

// withForm reads the form of a request before h. What could not be read to its end would look as if
// the viewer had entered nothing.
func withForm(h func(*request) error) func(*request) error {
	return func(q *request) error {
		if err := q.readForm(input.MaxRequestBytes); err != nil {
			return err
		}
		return h(q)
	}
}

// withEditor is withForm for the editor. Only viewers who may write have a large one read.
func withEditor(h func(*request) error) func(*request) error {
	return func(q *request) error {
		limit := int64(input.MaxRequestBytes)
		if q.caller().May("write") {
			limit = MaxFormBytes
		}
		if unread := q.readForm(limit); unread != nil {
			if err := q.needWrite(); err != nil {
				return err
			}
			return unread
		}
		return h(q)
	}
}

// readForm reads the form of a request once. A form with a file is read by its page, up to the limit.
func (q *request) readForm(limit int64) error {
	if q.read || q.r.Method != http.MethodPost {
		return q.unread
	}
	q.read = true
	q.r.Body = http.MaxBytesReader(q.w, q.r.Body, limit)
	err := q.r.ParseForm()
	if err == nil {
		return nil
	}
	refused := &apiError{Status: http.StatusBadRequest}
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		refused.Status = http.StatusRequestEntityTooLarge
		refused.Detail = q.views.texts.get("too_large")
	} else if errors.Is(err, os.ErrDeadlineExceeded) {
		refused.Status = http.StatusRequestTimeout
	}
	q.unread = refused
	return q.unread
}
