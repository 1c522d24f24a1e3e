package yamltext_test

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/carillon-timer/carillon/libs/yamltext"
	"github.com/carillon-timer/carillon/libs/yamltext/yamltexttest"
)

// TestTextsComeBack checks keys and values by a reader of YAML 1.2. The tests of what uses the
// package read them by YAML 1.1.
func TestTextsComeBack(t *testing.T) {
	t.Parallel()
	texts := append(yamltexttest.Words(), yamltexttest.Characters()...)
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		var b strings.Builder
		for range 2 + r.IntN(4) {
			b.WriteString(texts[r.IntN(len(texts))])
		}
		texts = append(texts, b.String())
	}
	texts = append(texts, strings.Repeat("a b", 500), strings.Repeat("a\n", 500))
	for _, s := range texts {
		in := map[string]any{"k": map[string]any{s: s}, "l": []any{s, map[string]any{s: []any{s}}}}
		text, err := yamltext.Marshal(in)
		require.NoError(t, err, "%q", s)
		require.Equal(t, string(text), string(yamltext.QuoteKeys(text)), "keys are quoted")
		var n yaml.Node
		require.NoError(t, yaml.Unmarshal(text, &n), "%q", s)
		again, err := yaml.Marshal(&n) // as an editor does
		require.NoError(t, err, "%q", s)
		for _, text := range [][]byte{text, again} {
			var out any
			require.NoError(t, yaml.Unmarshal(text, &out), "%q", s)
			require.Equal(t, any(in), out, "%q\n%s", s, text)
		}
	}
}

// TestPlainTextsStayReadable checks that texts without a second meaning have no quotes.
func TestPlainTextsStayReadable(t *testing.T) {
	t.Parallel()
	text, err := yamltext.Marshal(map[string]any{
		"specs": []string{"0 9 * * MON-FRI"},
		"every": "1h30m0s",
		"url":   "https://example.com/a?b=c",
		"name":  "send invoices",
		"body":  "{\n  \"a\": 1\n}\n",
		"count": 7,
		"b":     true,
		"none":  nil,
		"f":     1.5,
		"big":   json.Number("12345678901234567890123"),
		"yes":   "no",
		"date":  "2026-01-01",
		"nel":   "a\u0085",
	})
	require.NoError(t, err)
	require.Equal(t, `b: true
big: 12345678901234567890123
body: |
  {
    "a": 1
  }
count: 7
date: "2026-01-01"
every: 1h30m0s
f: 1.5
name: send invoices
nel: "a\N"
none: null
specs:
- 0 9 * * MON-FRI
url: https://example.com/a?b=c
"yes": "no"
`, string(text))
}

func TestJSONKeepsItsOrder(t *testing.T) {
	t.Parallel()
	n, err := yamltext.FromJSON([]byte(`{"b":[1,{"a":null}],"a":-1e3}`))
	require.NoError(t, err)
	text, err := yaml.Marshal(n)
	require.NoError(t, err)
	require.Equal(t, "b:\n    - 1\n    - a: null\na: -1e3\n", string(text))
	for _, bad := range []string{``, `{"a":1} {}`, `{"a"`, `[1`} {
		_, err := yamltext.FromJSON([]byte(bad))
		require.Error(t, err, bad)
	}
}

func TestEscapeJSON(t *testing.T) {
	t.Parallel()
	for _, s := range slices.Concat(yamltexttest.Words(), yamltexttest.Characters()) {
		text, err := json.Marshal(map[string]string{s: s})
		require.NoError(t, err)
		text = yamltext.EscapeJSON(append(text, "\r\n"...))
		var byJSON, byYAML map[string]string
		require.NoError(t, json.Unmarshal(text, &byJSON))
		require.Equal(t, map[string]string{s: s}, byJSON)
		require.NoError(t, yaml.Unmarshal(text, &byYAML), "%q", s)
		require.Equal(t, byJSON, byYAML, "%q", s)
	}
}

func TestQuoteKeys(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"# why\ny: y\nx: {on: 1, 012: 2}\n": "# why\n\"y\": y\nx: {\"on\": 1, \"012\": 2}\n",
		"a: &a {b: 1}\nc: {<<: *a}\n":       "a: &a {b: 1}\nc: {<<: *a}\n",
		"a:   [y]\n":                        "a:   [y]\n",
		"a: [":                              "a: [",
	} {
		require.Equal(t, want, string(yamltext.QuoteKeys([]byte(text))))
	}
}
