package ui

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestOnlyInstantsAreRead checks that a name which looks like an instant reaches the API as it is.
func TestOnlyInstantsAreRead(t *testing.T) {
	t.Parallel()
	given := url.Values{
		"timer": {
			"2030-01-31T09:00",
		},
		"from":   {"2030-01-31T09:00"},
		"cursor": {"c"},
		"other":  {"x"},
	}
	q := &request{r: httptest.NewRequest(http.MethodGet, "/ui/?"+given.Encode(), nil)}
	l := q.readListing("5", []string{"timer", "labels"}, []string{"from", "to"})
	require.Equal(t, url.Values{
		"limit": {"5"}, "cursor": {"c"}, "timer": {"2030-01-31T09:00"},
		"from": {"2030-01-31T09:00:00Z"},
	}, l.query)
	require.Equal(t, map[string]string{
		"timer": "2030-01-31T09:00", "from": "2030-01-31T09:00",
	}, l.Filter, "as the viewer entered them")
	l.end("/ui/list", "next")
	require.Equal(
		t,
		"/ui/list?cursor=next&from=2030-01-31T09%3A00&timer=2030-01-31T09%3A00",
		l.Next,
	)
}
