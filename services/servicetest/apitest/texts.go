package apitest

import (
	"net/http"
	"testing"
)

// CreateWithText creates a timer of shop that has a text in its body and query, and in its labels
// and headers where the API takes it there.
func (f *Fixture) CreateWithText(t *testing.T, name, text string) V2Timer {
	t.Helper()
	target := map[string]any{
		"url": "https://example.com/", "body": text,
		"query": map[string][]string{"x": {"1"}, text: {text, "x"}},
	}
	if text == "" {
		target["query"] = map[string][]string{"x": {text}}
	}
	body := map[string]any{
		"app": "shop", "name": name, "target": target,
		"schedule": map[string]any{"kind": "interval", "every": "1h"},
	}
	for _, more := range []struct {
		in    map[string]any
		field string
		value any
	}{
		{body, "labels", map[string]string{"k": text}},
		{body, "labels", map[string]string{"k": text, text: "v"}},
		{target, "headers", map[string][]string{"X-A": {text, "x"}}},
	} {
		had, ok := more.in[more.field]
		more.in[more.field] = more.value
		a := f.Call(t, http.MethodPost, "/api/v2/timers?dry_run=true", Text(t, body), nil)
		if a.Status == http.StatusUnprocessableEntity { // it may not have it
			delete(more.in, more.field)
			if ok {
				more.in[more.field] = had
			}
		}
	}
	return f.Create(t, http.StatusCreated, Text(t, body))
}
