package cli_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/carillon-timer/carillon/services/servicetest/devtest"
)

// block is a fenced block of a document.
type block struct {
	language   string
	attributes map[string]string // in braces behind the language
	text       string
}

var (
	fence     = regexp.MustCompile("(?ms)^( *)```(\\w+)[ \t]*(\\{[^\n]*\\})?\n(.*?)^ *```$")
	attribute = regexp.MustCompile(`(\w+)="([^"]*)"`)
)

// blocksOf returns the fenced blocks of a document that have a language.
func blocksOf(text string) []block {
	var all []block
	for _, m := range fence.FindAllStringSubmatch(text, -1) {
		b := block{language: m[2], attributes: make(map[string]string)}
		for _, a := range attribute.FindAllStringSubmatch(m[3], -1) {
			b.attributes[a[1]] = a[2]
		}
		if strings.Contains(m[3], ".output") {
			b.attributes["output"] = "true"
		}
		for line := range strings.Lines(m[4]) {
			b.text += strings.TrimPrefix(line, m[1])
		}
		all = append(all, b)
	}
	return all
}

// TestPages runs the commands of every tutorial and how-to guide, page by page, in their order,
// each against a process of its own. A block of sh runs unless it says why not:
//
//	```sh {skip="needs a cluster"}
//
// A block with file="NAME" becomes that file. A block of text with .output is what the block before
// it prints: numbers may differ, and … stands for anything.
func TestPages(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"bash", "curl"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("SKIPPED, UNTESTED: the commands of the guides: there is no %s", tool)
		}
	}
	const root = "../.."
	data, err := os.ReadFile(filepath.Join(root, "docs/site/data/map.yaml"))
	require.NoError(t, err)
	var sections []struct {
		Section string
		Pages   []string
	}
	require.NoError(t, yaml.Unmarshal(data, &sections))
	program := programDir(t)
	pages := 0
	for _, s := range sections {
		if s.Section != "tutorial" && s.Section != "how-to" {
			continue
		}
		for _, page := range s.Pages {
			pages++
			t.Run(page, func(t *testing.T) {
				t.Parallel()
				text, err := os.ReadFile(filepath.Join(root, page))
				require.NoError(t, err)
				runPage(t, program, blocksOf(string(text)))
			})
		}
	}
	require.Greater(t, pages, 10)
}

// mark begins the output of a block.
const mark = "@@@ block "

// runPage runs the blocks of a page as one script, so that variables stay.
func runPage(t *testing.T, program string, blocks []block) {
	t.Helper()
	var script strings.Builder
	runs := false
	for i, b := range blocks {
		switch file, why := b.attributes["file"], b.attributes["skip"]; {
		case file != "":
			fmt.Fprintf(
				&script,
				"mkdir -p \"$(dirname '%s')\"\ncat > '%s' <<'END OF FILE'\n%sEND OF FILE\n",
				file,
				file,
				b.text,
			)
		case b.language == "sh" && why != "":
			first, _, _ := strings.Cut(b.text, "\n")
			t.Logf("not run, %s: %s", why, first)
		case b.language == "sh":
			runs = true
			fmt.Fprintf(&script, "echo '%s%d'\n%s", mark, i, b.text)
		}
	}
	if !runs {
		return
	}
	data := t.TempDir()
	d := devtest.Start(t, data, "CARILLON_ENCRYPTION_KEYS", encryptionKey(t))
	defer d.Stop(t)
	here := strings.NewReplacer(
		"127.0.0.1:8080", strings.TrimPrefix(d.Api, "http://"),
		"127.0.0.1:8081", strings.TrimPrefix(d.Admin, "http://"),
	)
	home := t.TempDir()
	var out bytes.Buffer
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	run := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", here.Replace(script.String()))
	run.Dir = home
	run.WaitDelay = time.Second // for what the script started
	run.Stdout, run.Stderr = &out, &out
	run.Env = []string{
		"PATH=" + program + ":" + os.Getenv("PATH"), "HOME=" + home, "TZ=UTC", "EDITOR=true",
		"CARILLON_API=" + d.Api, "CARILLON_DATA_DIR=" + data,
	}
	require.NoError(t, run.Run(), "%s", &out)
	printed := make(map[int]string)
	for part := range strings.SplitSeq(out.String(), mark) {
		var i int
		if number, text, ok := strings.Cut(part, "\n"); ok && number != "" {
			_, err := fmt.Sscan(number, &i)
			require.NoError(t, err, part)
			printed[i] = text
		}
	}
	for i, b := range blocks {
		if b.attributes["output"] != "" {
			require.Equal(t, "sh", blocks[i-1].language, "what prints this? %s", b.text)
			require.Regexp(t, likeness(here.Replace(b.text)), alike(printed[i-1]))
		}
	}
}

var (
	duration = regexp.MustCompile(`\b\d+(\.\d+)?(µs|ms|s)\b`)
	number   = regexp.MustCompile(`\d+`)
	spaces   = regexp.MustCompile(`[ \t]+`)
	anything = regexp.MustCompile(`…\n?`)
)

// alike returns a text with all numbers and spaces alike.
func alike(text string) string {
	text = number.ReplaceAllString(duration.ReplaceAllString(text, "0s"), "0")
	return strings.TrimSpace(spaces.ReplaceAllString(text, " "))
}

// likeness returns an expression for the texts that are like an example.
func likeness(example string) string {
	return `^` + anything.ReplaceAllString(regexp.QuoteMeta(alike(example)), `(?s:.*)`) + `$`
}

// encryptionKey returns a new encryption key.
func encryptionKey(t *testing.T) string {
	t.Helper()
	u := newUser(t, "")
	return strings.TrimSpace(u.do("encryption-key"))
}
