package definition_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/services/api/definition"
)

// TestDocumentsKeepTheirText reads documents of both kinds, and refuses what would be changed.
func TestDocumentsKeepTheirText(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"body":"\u0085 😀","on":"no"}`: `{"body":"\u0085 😀","on":"no"}`,
		"on: \"no\"\ny: 1\n":            `{"on":"no","y":1}`,
		"labels: {a: &v x, b: *v}":      `{"labels":{"a":"x","b":"x"}}`,
	} {
		got, err := definition.DocumentJSON([]byte(text))
		require.NoError(t, err, text)
		require.Equal(t, want, string(got))
	}
	for _, text := range []string{
		"a: 1\n...\nb: 2\n", "a: 1\n--- {b: 2}\n", "{\"a\":1}\n{\"b\":2}\n",
		"{\"body\":\"caf\xe9\"}", `{"body":"\ud83d"}`, `{"a":1,"a":2}`, "a: 1\na: 2\n", "a: caf\xe9\n",
		"a: !!binary /wB7\n",
	} {
		_, err := definition.DocumentJSON([]byte(text))
		require.Error(t, err, text)
	}
}
