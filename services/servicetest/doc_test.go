package servicetest_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// listed matches a line of a package comment that names a file or a package of the folder.
var listed = regexp.MustCompile(`(?m)^\t(internal/[a-z]+|[a-z0-9_]+\.go)  `)

// TestPackageCommentsListTheirFiles checks that the table of contents in a doc.go names each file
// of the package and each package beside it, and nothing else.
func TestPackageCommentsListTheirFiles(t *testing.T) {
	t.Parallel()
	for _, root := range []string{
		"../executor", "../scheduler", "../trigger", "../migrator", "../api/ui", "../api/v2/timers",
		"../../libs/callback", "../../libs/limit", "../../libs/pickup", "../../libs/schedule",
		"../../libs/timer",
		"../../libs/store/sqlstore/internal/admin", "../../libs/store/sqlstore/internal/fires",
		"../../libs/store/sqlstore/internal/history", "../../libs/store/sqlstore/internal/scheduling",
		"../../libs/store/sqlstore/internal/search", "../../libs/store/sqlstore/internal/sqldb",
		"../../libs/store/sqlstore/internal/timers",
	} {
		require.NoError(
			t,
			filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
				if err != nil || d.Name() != "doc.go" {
					return err
				}
				f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
				if err != nil {
					return err
				}
				var named, found []string
				for _, m := range listed.FindAllStringSubmatch(f.Doc.Text(), -1) {
					named = append(named, m[1])
				}
				dir := filepath.Dir(path)
				for _, pattern := range []string{"*.go", "internal/*"} {
					paths, err := filepath.Glob(filepath.Join(dir, pattern))
					if err != nil {
						return err
					}
					for _, p := range paths {
						name := strings.TrimPrefix(p, dir+string(os.PathSeparator))
						if name != "doc.go" && !strings.HasSuffix(name, "_test.go") {
							found = append(found, filepath.ToSlash(name))
						}
					}
				}
				require.ElementsMatch(t, found, named, path)
				return nil
			}),
		)
	}
}

// TestArchitectureNamesEachFolder checks that the table of folders names each folder of libs.
func TestArchitectureNamesEachFolder(t *testing.T) {
	t.Parallel()
	const root = "../.."
	text, err := os.ReadFile(filepath.Join(root, "docs", "architecture.md"))
	require.NoError(t, err)
	_, table, found := strings.Cut(string(text), "\n| folder | what |\n")
	require.True(t, found)
	dirs, err := os.ReadDir(filepath.Join(root, "libs"))
	require.NoError(t, err)
	for _, d := range dirs {
		if d.IsDir() {
			require.Regexp(t, "[`\\[]libs/"+d.Name()+"[`\\]]", table)
		}
	}
}
