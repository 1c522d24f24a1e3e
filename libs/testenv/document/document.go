// Package document reads the fenced blocks of Markdown documents, so that tests run what the
// documents tell people to run. CONTRIBUTING.md describes the attributes of a block.
package document

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Block is a fenced block.
type Block struct {
	Page       string // the document, as a path below the root of the repository
	Line       int    // of its first fence
	Language   string // sh, yaml, …; empty where none is given
	Attributes map[string]string
	Text       string
}

// String says where the block is.
func (b *Block) String() string { return fmt.Sprintf("%s:%d", b.Page, b.Line) }

var (
	fence     = regexp.MustCompile("(?ms)^( *)```(\\w*)[ \t]*(\\{[^\n]*\\})?\n(.*?)^ *```$")
	attribute = regexp.MustCompile(`([\w-]+)="([^"]*)"|\.([\w-]+)`)
)

// Blocks returns the fenced blocks of a document, in their order. An attribute that is a class, such
// as .output, has the value "true".
func Blocks(page, text string) []Block {
	var all []Block
	for _, at := range fence.FindAllStringSubmatchIndex(text, -1) {
		part := func(i int) string {
			if at[2*i] < 0 {
				return ""
			}
			return text[at[2*i]:at[2*i+1]]
		}
		b := Block{
			Page:       page,
			Line:       1 + strings.Count(text[:at[0]], "\n"),
			Language:   part(2),
			Attributes: make(map[string]string),
		}
		for _, a := range attribute.FindAllStringSubmatch(part(3), -1) {
			if a[3] != "" {
				b.Attributes[a[3]] = "true"
			} else {
				b.Attributes[a[1]] = a[2]
			}
		}
		for line := range strings.Lines(part(4)) {
			b.Text += strings.TrimPrefix(line, part(1))
		}
		all = append(all, b)
	}
	return all
}

// Read returns the fenced blocks of the documents below the root of the repository: of each
// Markdown file that has one.
func Read(root string) (map[string][]Block, error) {
	all := make(map[string][]Block)
	files := os.DirFS(root)
	err := fs.WalkDir(files, ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() {
			hidden := name != "." && strings.HasPrefix(e.Name(), ".")
			made := slices.Contains([]string{"bin", "data", "dist"}, name)
			// Logs and data of runs, which come and go meanwhile.
			if hidden || made || e.Name() == "failures" || e.Name() == "node_modules" {
				return fs.SkipDir
			}
			return nil
		}
		if path.Ext(name) != ".md" {
			return nil
		}
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		if blocks := Blocks(name, string(text)); len(blocks) > 0 {
			all[name] = blocks
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading the documents below %s: %w", filepath.Clean(root), err)
	}
	return all, nil
}

// Needing returns the blocks of one document that need something, in their order. It fails if there
// is none, so that the test which runs them notices that they are elsewhere.
func Needing(root, page, need string) ([]Block, error) {
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(page)))
	if err != nil {
		return nil, fmt.Errorf("reading a document: %w", err)
	}
	all := slices.DeleteFunc(Blocks(page, string(text)), func(b Block) bool {
		return b.Attributes["needs"] != need
	})
	if len(all) == 0 {
		return nil, fmt.Errorf("%s has no block that needs %s", page, need)
	}
	return all, nil
}

// Run runs the commands of blocks in a folder, as one script, with more variables of the
// environment. It stops at the first command that fails. replace has pairs of texts: what the blocks
// name, and what the test has instead. Run returns what the commands print.
func Run(
	ctx context.Context,
	dir string,
	env []string,
	blocks []Block,
	replace ...string,
) (string, error) {
	var script strings.Builder
	for _, b := range blocks {
		script.WriteString(b.Text)
	}
	//nolint:gosec // the commands are ours
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c",
		strings.NewReplacer(replace...).Replace(script.String()))
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	cmd.WaitDelay = time.Second // for what the script started
	out, err := cmd.CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("the commands of %s: %w\n%s", blocks[0].Page, err, out)
	}
	return string(out), nil
}
