// Command docs checks the Markdown files of a repository, without a network:
//
//	cd deploy/tools && go run ./cmd/docs ../..
//
// It complains of relative links to files or headings that do not exist, of lines of prose that are
// too wide, of files that are too large, and of tests that a document names and no Go file has.
package main

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

const maxColumns = 100

// maxBytes limits the documents that people read first.
var maxBytes = map[string]int{
	"README.md":          6 << 10,
	"deploy/README.md":   5 << 10,
	"e2e/README.md":      5 << 10,
	"proto/README.md":    5 << 10,
	"services/README.md": 5 << 10,
}

var (
	link     = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	bareURL  = regexp.MustCompile(`https?://\S+`)
	code     = regexp.MustCompile("`[^`]*`")
	testName = regexp.MustCompile(`\bTest[A-Z]\w*`)
	testFunc = regexp.MustCompile(`(?m)^func (Test[A-Z]\w*)\(`)
)

func main() {
	if len(os.Args) != 2 { //nolint:mnd // the program and the root
		fmt.Fprintln(os.Stderr, "docs: give the root of the repository")
		os.Exit(2)
	}
	complaints, err := check(os.DirFS(os.Args[1]))
	for _, c := range complaints {
		fmt.Fprintln(os.Stderr, "docs:", c)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "docs:", err)
	}
	if err != nil || len(complaints) > 0 {
		os.Exit(1)
	}
}

// document is what others may link to, and what they link to.
type document struct {
	text  string
	slugs map[string]bool
}

// check returns what is wrong with the Markdown files below root, in order of their names.
func check(root fs.FS) (complaints []string, err error) {
	docs, tests, err := read(root)
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(docs)) {
		d := docs[name]
		if limit := maxBytes[name]; limit > 0 && len(d.text) > limit {
			complaints = append(
				complaints,
				fmt.Sprintf("%s has %d bytes, more than %d", name, len(d.text), limit),
			)
		}
		for n, line := range prose(d.text) {
			at := fmt.Sprintf("%s:%d", name, n)
			if columns := width(line); columns > maxColumns {
				complaints = append(
					complaints,
					fmt.Sprintf("%s has %d columns, more than %d", at, columns, maxColumns),
				)
			}
			for _, m := range link.FindAllStringSubmatch(code.ReplaceAllString(line, ""), -1) {
				if why := follow(root, docs, name, m[1]); why != "" {
					complaints = append(complaints, fmt.Sprintf("%s: %s %s", at, m[1], why))
				}
			}
			for _, test := range testName.FindAllString(line, -1) {
				if !tests[test] {
					complaints = append(complaints, at+": there is no test "+test)
				}
			}
		}
	}
	return complaints, nil
}

// read returns the Markdown files by name, and the names of all tests.
func read(root fs.FS) (docs map[string]document, tests map[string]bool, err error) {
	docs, tests = make(map[string]document), make(map[string]bool)
	err = fs.WalkDir(root, ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() {
			hidden := name != "." && strings.HasPrefix(e.Name(), ".")
			if hidden || slices.Contains([]string{"bin", "data", "dist"}, name) {
				return fs.SkipDir
			}
			return nil
		}
		isTest := strings.HasSuffix(name, "_test.go")
		if !isTest && path.Ext(name) != ".md" {
			return nil
		}
		text, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		if isTest {
			for _, m := range testFunc.FindAllSubmatch(text, -1) {
				tests[string(m[1])] = true
			}
			return nil
		}
		docs[name] = document{text: string(text), slugs: slugs(string(text))}
		return nil
	})
	if err != nil {
		return nil, nil, fmt.Errorf("reading the documents: %w", err)
	}
	return docs, tests, nil
}

// prose yields the lines outside of code blocks, by number.
func prose(text string) func(yield func(int, string) bool) {
	return func(yield func(int, string) bool) {
		fenced := false
		n := 0
		for line := range strings.Lines(text) {
			n++
			if strings.HasPrefix(strings.TrimSpace(line), "```") {
				fenced = !fenced
				continue
			}
			if !fenced && !yield(n, strings.TrimSuffix(line, "\n")) {
				return
			}
		}
	}
}

// width returns the columns of a line without the targets of links. A row of a table has none.
func width(line string) int {
	if strings.HasPrefix(strings.TrimSpace(line), "|") {
		return 0
	}
	return utf8.RuneCountInString(bareURL.ReplaceAllString(link.ReplaceAllString(line, "]"), ""))
}

// follow says what is wrong with a link from a document; nothing where it leads somewhere.
func follow(root fs.FS, docs map[string]document, from, to string) string {
	if strings.Contains(to, "://") || strings.HasPrefix(to, "mailto:") {
		return ""
	}
	file, heading, _ := strings.Cut(to, "#")
	name := from
	if file != "" {
		name = path.Join(path.Dir(from), filepath.ToSlash(file))
	}
	if _, err := fs.Stat(root, name); errors.Is(err, fs.ErrNotExist) || !fs.ValidPath(name) {
		return "does not exist"
	}
	if d, ok := docs[name]; heading != "" && ok && !d.slugs[heading] {
		return "is no heading there"
	}
	return ""
}

// slugs returns the anchors of the headings, as GitHub makes them.
func slugs(text string) map[string]bool {
	found := make(map[string]bool)
	for _, line := range prose(text) {
		title, ok := strings.CutPrefix(strings.TrimLeft(line, "#"), " ")
		if !ok || !strings.HasPrefix(line, "#") {
			continue
		}
		slug := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case unicode.In(r, unicode.L, unicode.Nd) || r == '-' || r == '_':
				return unicode.ToLower(r)
			default:
				return -1
			}
		}, link.ReplaceAllString(strings.TrimSpace(title), ""))
		unique := slug
		for i := 1; found[unique]; i++ {
			unique = fmt.Sprintf("%s-%d", slug, i)
		}
		found[unique] = true
	}
	return found
}
