package ui

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// TestTextAreasBeginWithALine checks that the first end of a line, which browsers leave out, is not
// that of the text.
func TestTextAreasBeginWithALine(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("templates/*.html")
	require.NoError(t, err)
	areas, kept := regexp.MustCompile(`<textarea[^>]*>`), regexp.MustCompile(`<textarea[^>]*>\n`)
	n := 0
	for _, f := range files {
		b, err := os.ReadFile(f)
		require.NoError(t, err)
		require.Len(t, kept.FindAll(b, -1), len(areas.FindAll(b, -1)), f)
		n += len(areas.FindAll(b, -1))
	}
	require.NotZero(t, n)
}

// TestDocumentsHaveWhatRequestsTake makes an answer with every field of the API's description. What
// the editor shows of it must be a field of the request, because the API refuses others.
func TestDocumentsHaveWhatRequestsTake(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../openapi.yaml")
	require.NoError(t, err)
	var api struct {
		Components struct {
			Schemas map[string]struct{ Properties map[string]any }
		}
	}
	require.NoError(t, yaml.Unmarshal(text, &api))
	answer := make(map[string]string)
	for name := range api.Components.Schemas["TimerBody"].Properties {
		answer[name] = "x"
	}
	require.NotEmpty(t, answer)
	data, err := json.Marshal(answer)
	require.NoError(t, err)
	doc, err := documentOf(data)
	require.NoError(t, err)
	var shown map[string]any
	require.NoError(t, doc.root.Decode(&shown))
	for name := range shown {
		require.Contains(t, api.Components.Schemas["NewTimerBody"].Properties, name)
	}
}

// TestASecondDocumentIsRefused checks that the editor saves all that a viewer entered, or nothing.
func TestASecondDocumentIsRefused(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"name: a\n---\nname: b\n", "name: a\n...\nname: b\n"} {
		_, err := parseDocument(text)
		require.ErrorContains(t, err, "expected one document, found more", "%q", text)
	}
	_, err := parseDocument("---\nname: a\n")
	require.NoError(t, err)
}
