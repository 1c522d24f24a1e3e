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
var listed = regexp.MustCompile(`(?m)^\t((?:internal/)?[a-z]+(?:\.go)?)  `)

// TestPackageCommentsListTheirFiles checks that the table of contents in a doc.go names each file
// of the package and each package beside it, and nothing else.
func TestPackageCommentsListTheirFiles(t *testing.T) {
	t.Parallel()
	for _, root := range []string{"../executor", "../scheduler"} {
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
