package output_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/services/cli/internal/client"
	"github.com/carillon-timer/carillon/services/cli/internal/output"
)

// TestJSONPathsCompareNumbers checks filters by numbers, and that numbers are printed as they came.
func TestJSONPathsCompareNumbers(t *testing.T) {
	t.Parallel()
	var items []client.Object
	for _, text := range []string{
		`{"name":"a","n":1,"rate":0.5,"id":1234567890123456789,"in":{"n":7},"list":[1,2.5]}`,
		`{"name":"b","n":2,"rate":1e30,"id":12345678901234567890123}`,
	} {
		o, err := client.Decode([]byte(text))
		require.NoError(t, err)
		items = append(items, o)
	}
	for path, want := range map[string]string{
		".items[?(@.n==1)].name":      "a\n",
		".items[?(@.n>0)].name":       "a\nb\n",
		".items[?(@.rate<0.75)].name": "a\n",
		".items[?(@.in.n==7)].name":   "a\n",
		".items[*].rate":              "0.5\n1e30\n",
		".items[*].id":                "1234567890123456789\n12345678901234567890123\n",
		".items[0].list":              "[1,2.5]\n",
		".items[0].n":                 "1\n",
	} {
		var out bytes.Buffer
		p, err := output.New("jsonpath="+path, &out)
		require.NoError(t, err)
		require.NoError(t, p.List(items, nil))
		require.Equal(t, want, out.String(), path)
	}
}
