package problem

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/carillon-timer/carillon/libs/timer"
)

// Of returns an RFC 9457 problem about at most one field.
func Of(f Fault) *huma.ErrorModel {
	if f.Field == "idempotency_key" { // no body has it
		f.Field = "header.Idempotency-Key"
	}
	m := &huma.ErrorModel{Status: f.Status, Title: http.StatusText(f.Status), Detail: f.Msg}
	if f.Status == StatusClientClosed { // net/http has no text for it
		m.Title = "Client Closed Request"
	}
	if f.Field != "" {
		m.Detail = f.Field + ": " + f.Msg
		m.Errors = []*huma.ErrorDetail{{Location: location(f.Field), Message: f.Msg}}
	}
	return m
}

// Invalid returns an RFC 9457 problem about all invalid fields. If one could not be checked, it
// returns that error instead, for Of.
func (*Reporter) Invalid(bad []*timer.Error) error {
	m := &huma.ErrorModel{
		Status: http.StatusUnprocessableEntity,
		Title:  http.StatusText(http.StatusUnprocessableEntity),
		Detail: bad[0].Field + ": " + bad[0].Msg,
	}
	for _, e := range bad {
		if e.Code != timer.CodeInvalid {
			return e
		}
		m.Errors = append(m.Errors, &huma.ErrorDetail{Location: location(e.Field), Message: e.Msg})
	}
	return m
}

// Of converts an error of a request to the problem that a caller of v2 sees.
func (r *Reporter) Of(ctx context.Context, err error) error {
	f := r.FaultOf(ctx, err, http.StatusUnprocessableEntity)
	if f.Status == http.StatusServiceUnavailable {
		return huma.ErrorWithHeaders(Of(f), http.Header{"Retry-After": {RetryAfter}})
	}
	return Of(f)
}

// Model returns an error as a part of an answer, such as of one item of many. It is what the answer to
// a request of its own would show.
func (r *Reporter) Model(ctx context.Context, err error) *huma.ErrorModel {
	m, ok := errors.AsType[*huma.ErrorModel](err)
	if !ok {
		of := r.Of(ctx, err)
		if m, ok = errors.AsType[*huma.ErrorModel](of); !ok {
			m = &huma.ErrorModel{Status: http.StatusInternalServerError, Detail: of.Error()}
			if status, ok := errors.AsType[huma.StatusError](of); ok {
				m.Status = status.GetStatus()
			}
			m.Title = http.StatusText(m.Status)
		}
	}
	makePlain(m)
	return m
}

// Busy returns a 503 about a limit of this process. msg says what to do.
func Busy(msg string) error {
	return huma.ErrorWithHeaders(
		Of(Fault{Status: http.StatusServiceUnavailable, Msg: msg}),
		http.Header{"Retry-After": {RetryAfter}},
	)
}

// location returns the part of the request and the field; the body is the default part, and "body"
// the whole of it.
func location(field string) string {
	if field == "body" {
		return field
	}
	for _, part := range []string{"path.", "query.", "header."} {
		if strings.HasPrefix(field, part) {
			return field
		}
	}
	return "body." + field
}

// PlainProblem is a huma.Transformer, which makes an error plain that is the whole answer.
func PlainProblem(_ huma.Context, _ string, v any) (any, error) {
	if m, ok := v.(*huma.ErrorModel); ok {
		makePlain(m)
	}
	return v, nil
}

// makePlain rewrites huma's validation errors to the form of all others, with what was expected and
// what was found. huma echoes the invalid value, which may be the whole body or a secret. Only short
// values that are not secret stay.
func makePlain(m *huma.ErrorModel) {
	for _, e := range m.Errors {
		rewriteMessage(e)
		e.Value = shortValue(e)
	}
	if len(m.Errors) > 0 && !strings.Contains(m.Detail, ", found ") &&
		m.Status < http.StatusInternalServerError &&
		m.Status != http.StatusConflict {
		m.Detail = strings.TrimPrefix(m.Errors[0].Location, "body.") + ": " + m.Errors[0].Message
	}
}

// shortValue returns the invalid value where it may be shown. A text at body is the whole body,
// which may have secrets.
func shortValue(e *huma.ErrorDetail) any {
	const most = 100
	_, text := e.Value.(string)
	if text && e.Location == "body" || isSecretLocation(e.Location) {
		return nil
	}
	switch value := e.Value.(type) {
	case bool, float64, int:
		return value
	case string:
		if len(value) <= most {
			return value
		}
	}
	return nil
}

// isSecretLocation returns whether a location in a request may hold a secret or part of one.
func isSecretLocation(location string) bool {
	for _, part := range []string{"secret", "oauth2", ".tls", "token", "headers", "eader.Authorization", "url"} {
		if strings.Contains(location, part) {
			return true
		}
	}
	return false
}
