package api

import (
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/carillon-timer/carillon/libs/timer"
)

// problem is an RFC 9457 problem about at most one field.
func problem(f fault) *huma.ErrorModel {
	m := &huma.ErrorModel{Status: f.status, Title: http.StatusText(f.status), Detail: f.msg}
	if f.field != "" {
		m.Detail = f.field + ": " + f.msg
		m.Errors = []*huma.ErrorDetail{{Location: location(f.field), Message: f.msg}}
	}
	return m
}

// problems is an RFC 9457 problem about all fields that are wrong.
func (s *Service) problems(bad []*timer.Error) error {
	m := &huma.ErrorModel{
		Status: http.StatusUnprocessableEntity,
		Title:  http.StatusText(http.StatusUnprocessableEntity),
		Detail: bad[0].Field + ": " + bad[0].Msg,
	}
	for _, e := range bad {
		if e.Code != timer.CodeInvalid {
			return s.problemOf(e)
		}
		m.Errors = append(m.Errors, &huma.ErrorDetail{Location: location(e.Field), Message: e.Msg})
	}
	return m
}

// problemOf is the problem that a caller of v2 sees of an error.
func (s *Service) problemOf(err error) error {
	f := s.faultOf(err, http.StatusUnprocessableEntity)
	if f.status == http.StatusServiceUnavailable {
		return huma.ErrorWithHeaders(problem(f), http.Header{"Retry-After": {retryAfter}})
	}
	return problem(f)
}

// location says in which part of the request a field is: in the body, where it does not name
// another.
func location(field string) string {
	for _, part := range []string{"path.", "query.", "header."} {
		if strings.HasPrefix(field, part) {
			return field
		}
	}
	return "body." + field
}

// plainProblem is a huma.Transformer: what huma finds wrong with a request by its description is
// said as everything else is, with what was expected and what was found. huma echoes the value at
// fault, and that may be the whole body, or a secret: it is left out unless it is short and no
// secret.
func plainProblem(_ huma.Context, _ string, v any) (any, error) {
	m, ok := v.(*huma.ErrorModel)
	if !ok {
		return v, nil
	}
	for _, e := range m.Errors {
		rewriteMessage(e)
		e.Value = shortValue(e)
	}
	if len(m.Errors) > 0 && !strings.Contains(m.Detail, ", found ") &&
		m.Status < http.StatusInternalServerError &&
		m.Status != http.StatusConflict {
		m.Detail = strings.TrimPrefix(m.Errors[0].Location, "body.") + ": " + m.Errors[0].Message
	}
	return m, nil
}

// shortValue returns the value at fault where it may be shown.
func shortValue(e *huma.ErrorDetail) any {
	const most = 100
	if isSecretLocation(e.Location) {
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

// isSecretLocation tells whether what stands at a place of a request is or may be a secret, or a part of
// one.
func isSecretLocation(location string) bool {
	for _, part := range []string{"secret", "oauth2", ".tls", "token", "headers", "eader.Authorization", "url"} {
		if strings.Contains(location, part) {
			return true
		}
	}
	return false
}
