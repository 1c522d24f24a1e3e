package ui

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
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
