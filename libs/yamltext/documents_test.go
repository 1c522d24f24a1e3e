package yamltext_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/yamltext"
)

// joined are two documents that no line with --- separates.
func joined() map[string]string {
	return map[string]string{
		"the mark ...":                "name: a\n...\nname: b\n",
		"--- and text":                "name: a\n--- {name: b}\n",
		"--- and a text in a block":   "name: a\n--- |\n  b\n",
		"two objects in a row":        "{\"name\": \"a\"}\n{\"name\": \"b\"}\n",
		"two objects over lines":      "{\n\"name\": \"a\"\n}\n{\n\"name\": \"b\"\n}\n",
		"lines that end in \\r alone": "name: a\r---\rname: b\r",
		"text without a mark":         "[a]\nname: b\n",
	}
}

func TestASecondDocumentIsRefused(t *testing.T) {
	t.Parallel()
	for name, text := range joined() {
		_, err := yamltext.Decode([]byte(text))
		require.ErrorContains(t, err, "expected one document, found more", name)
		require.ErrorContains(t, err, "put --- on a line of its own", name)
		require.Equal(t, err, yamltext.CheckLength([]byte(text), len(text)), name)
		require.Equal(t, text, string(yamltext.QuoteKeys([]byte(text))), name)
	}
	for _, text := range []string{
		"name: a", "---\nname: a\n...\n# the end\n", "--- {name: a}\n", "{name: a}\r\n", "body: |\n  ---\n",
	} {
		n, err := yamltext.Decode([]byte(text))
		require.NoError(t, err, text)
		require.Len(t, n.Content, 1, text)
	}
	n, err := yamltext.Decode([]byte("# nothing\n"))
	require.NoError(t, err)
	require.Zero(t, n.Kind)
	_, err = yamltext.Decode([]byte("a: ["))
	require.NotContains(t, err.Error(), "document")
}

func TestSplit(t *testing.T) {
	t.Parallel()
	const yes, ndjson = "name: a|name: b", `{"name": "a"}|{"name": "b"}`
	for text, want := range map[string]string{
		"name: a\n---\nname: b\n":                         yes,
		"---\nname: a\n--- # next\n\n---\t\nname: b\n---": yes,
		"name: a\r\n---\r\nname: b\r\n":                   yes,
		"---\r\nname: a\r\n--- # next\r\nname: b\r\n":     yes,
		"{\"name\": \"a\"}\n{\"name\": \"b\"}\n":          ndjson,
		"{\"name\": \"a\"}\r\n\r\n{\"name\": \"b\"}":      ndjson,
		"# nothing\n": "",
	} {
		require.Equal(t, want, split(text, ""), "%q", text)
	}
	require.Equal(t, `{"a":1}`+"\n"+`{"a":2}`, split("{\"a\":1}\n{\"a\":2}", yamltext.YAML))
	require.Equal(t, "a: 1|---|b: 2", split("a: 1\n---\nb: 2", yamltext.NDJSON))
}

// split returns the documents of a text, with | between them.
func split(text, format string) string {
	var docs []string
	for _, doc := range yamltext.Split([]byte(text), format) {
		docs = append(docs, strings.TrimSpace(string(doc)))
	}
	return strings.Join(docs, "|")
}
