package servicetest_test

import (
	"errors"
	"go/ast"
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
var listed = regexp.MustCompile(`(?m)^\t(internal/[a-z0-9]+|[a-z0-9_]+\.go)  `)

// listsFrom is from how many files on, without tests and generated ones, a package lists them.
const listsFrom = 3

// TestPackageCommentsListTheirFiles checks that every package of three or more files has a table of
// contents in its doc.go. Any such table, of smaller packages too, names each file of the package
// and each package below its internal folder, and nothing else.
func TestPackageCommentsListTheirFiles(t *testing.T) {
	t.Parallel()
	for _, root := range []string{"../../libs", "../../services", "../../e2e"} {
		require.NoError(
			t,
			filepath.WalkDir(root, func(dir string, d fs.DirEntry, err error) error {
				if err != nil || !d.IsDir() {
					return err
				}
				if d.Name() == "testdata" {
					return fs.SkipDir
				}
				named, err := listedIn(filepath.Join(dir, "doc.go"))
				if err != nil {
					return err
				}
				found, written, err := contentsOf(dir)
				if err != nil {
					return err
				}
				if len(named) > 0 || written >= listsFrom {
					require.ElementsMatch(
						t,
						found,
						named,
						"the files of %s, and those of its doc.go",
						dir,
					)
				}
				return nil
			}),
		)
	}
}

// listedIn returns what a package comment lists. A file that does not exist lists nothing.
func listedIn(doc string) (named []string, err error) {
	f, err := parser.ParseFile(token.NewFileSet(), doc, nil, parser.ParseComments)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for _, m := range listed.FindAllStringSubmatch(f.Doc.Text(), -1) {
		named = append(named, m[1])
	}
	return named, nil
}

// contentsOf returns what a package has to list, and how many of these are files that people wrote.
func contentsOf(dir string) (found []string, written int, err error) {
	for _, pattern := range []string{"*.go", "internal/*"} {
		paths, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			return nil, 0, err
		}
		for _, p := range paths {
			name, err := filepath.Rel(dir, p)
			if err != nil {
				return nil, 0, err
			}
			if name == "doc.go" || strings.HasSuffix(name, "_test.go") {
				continue
			}
			found = append(found, filepath.ToSlash(name))
			if filepath.Ext(p) != ".go" {
				continue
			}
			f, err := parser.ParseFile(
				token.NewFileSet(), p, nil, parser.PackageClauseOnly|parser.ParseComments,
			)
			if err != nil {
				return nil, 0, err
			}
			if !ast.IsGenerated(f) {
				written++
			}
		}
	}
	return found, written, nil
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
