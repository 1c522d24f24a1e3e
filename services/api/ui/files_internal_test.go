package ui

import (
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestVendoredFiles compares the libraries with the hashes that their README names.
func TestVendoredFiles(t *testing.T) {
	t.Parallel()
	readme, err := static.ReadFile("static/vendor/README.md")
	require.NoError(t, err)
	rows := regexp.MustCompile("(?m)^\\| `([^`]+)` .* `([0-9a-f]{64})` \\|$").
		FindAllStringSubmatch(string(readme), -1)
	named := make(map[string]string)
	for _, r := range rows {
		named[r[1]] = r[2]
	}
	entries, err := fs.ReadDir(static, "static/vendor")
	require.NoError(t, err)
	for _, e := range entries {
		if ext := filepath.Ext(e.Name()); ext != ".js" && ext != ".css" {
			continue
		}
		b, err := static.ReadFile("static/vendor/" + e.Name())
		require.NoError(t, err)
		sum := sha256.Sum256(b)
		require.Equal(t, hex.EncodeToString(sum[:]), named[e.Name()], e.Name())
		delete(named, e.Name())
	}
	require.Empty(t, named, "the README names files that do not exist")
}

var (
	namedText = regexp.MustCompile(`(?:\bt |\.get\()"([a-z_]+)"`)
	namedKind = regexp.MustCompile(`(?:\btv |\.value\()"([a-z_]+)"`)
)

// TestTexts checks that every text that a page names is in each catalogue, and that no other is.
func TestTexts(t *testing.T) {
	t.Parallel()
	var code strings.Builder
	for _, pattern := range []string{"*.go", "templates/*.html"} {
		files, err := filepath.Glob(pattern)
		require.NoError(t, err)
		for _, f := range files {
			if strings.HasSuffix(f, "_test.go") {
				continue
			}
			b, err := os.ReadFile(f)
			require.NoError(t, err)
			code.Write(b)
		}
	}
	kinds := make(map[string]bool)
	for _, m := range namedKind.FindAllStringSubmatch(code.String(), -1) {
		kinds[m[1]] = true
	}
	first, err := loadTexts(languages[0])
	require.NoError(t, err)
	for _, m := range namedText.FindAllStringSubmatch(code.String(), -1) {
		require.Contains(t, first, m[1])
	}
	for _, policy := range misfirePolicies() {
		require.Contains(t, first, "misfire."+policy)
	}
	for key := range first {
		kind, _, isValue := strings.Cut(key, ".")
		used := isValue && kinds[kind] ||
			!isValue && regexp.MustCompile(`"`+strings.TrimSuffix(key, "_one")+`"`).
				MatchString(code.String())
		require.True(t, used, "nothing uses %s", key)
	}
	verb := regexp.MustCompile(`%[0-9]*[a-z]`)
	for _, l := range languages[1:] {
		other, err := loadTexts(l)
		require.NoError(t, err)
		require.ElementsMatch(t, keysOf(first), keysOf(other), l)
		for key, text := range first {
			require.NotEmpty(t, other[key], "%s: %s", l, key)
			require.Equal(t, verb.FindAllString(text, -1), verb.FindAllString(other[key], -1), key)
		}
	}
}

func keysOf(t texts) (keys []string) {
	for key := range t {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
