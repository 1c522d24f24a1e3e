package cli_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/carillon-timer/carillon/libs/testenv/document"
)

// elsewhere names the tests that run the blocks which need what a test of this package cannot have.
var elsewhere = map[string]struct{ file, test string }{
	"docker":          {"e2e/compose/document_test.go", "TestCommandsOfDocuments"},
	"kubernetes":      {"e2e/kube/document_test.go", "TestCommandsOfDocuments"},
	"minutes":         {"e2e/scenario/document_test.go", "TestCommandsOfDocuments"},
	"mariadb-replica": {"e2e/scenario/standby_test.go", "TestP2StandbyTakesOver"},
}

// TestPagesLeaveNothingOut checks that a test runs each command of the documents, and that the site
// has every document with commands.
func TestPagesLeaveNothingOut(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile(filepath.Join(repository, "docs/site/data/map.yaml"))
	require.NoError(t, err)
	var sections []struct{ Pages []string }
	require.NoError(t, yaml.Unmarshal(data, &sections))
	listed := []string{"README.md"}
	for _, s := range sections {
		listed = append(listed, s.Pages...)
	}
	pages, err := document.Read(repository)
	require.NoError(t, err)
	for page, blocks := range pages {
		checkBlocks(t, blocks)
		if slices.ContainsFunc(blocks, isCommands) {
			require.Contains(t, listed, page)
		}
	}
}

// command matches a line that looks like a command.
var command = regexp.MustCompile(
	`(?m)^(\$ |(bin/)?carillon |curl |make |go |docker |kubectl |helm |crontab |scripts/)`,
)

// checkBlocks checks that a test runs each command of a page.
func checkBlocks(t *testing.T, blocks []document.Block) {
	t.Helper()
	for _, b := range blocks {
		require.NotContains(t, []string{"bash", "console", "shell"}, b.Language, "%s: use sh", &b)
		for name := range b.Attributes {
			require.Contains(t, []string{
				"background", "check", "file", "needs", "output", "repository",
			}, name, "%s: no such attribute", &b)
		}
		// The examples of this page are those of the commands: TestExamplesAreValid.
		if b.Language == "" && b.Page != "docs/commands.md" {
			require.NotRegexp(t, command, b.Text, "%s: nobody runs a block without a language", &b)
		}
		switch need := b.Attributes["needs"]; {
		case b.Attributes["check"] != "":
			require.Equal(t, "names", b.Attributes["check"], &b)
			checkNames(t, &b)
		case need != "" && !needsServer(b):
			by, ok := elsewhere[need]
			require.True(t, ok, "%s: no test has %s", &b, need)
			text, err := os.ReadFile(filepath.Join(repository, by.file))
			require.NoError(t, err)
			require.Contains(t, string(text), "func "+by.test+"(", &b)
			require.Regexp(
				t, `"`+regexp.QuoteMeta(b.Page)+`",\s*"`+need+`"`, string(text),
				"%s: %s does not run it", &b, by.test,
			)
			if need == "docker" || need == "kubernetes" {
				checkNames(t, &b)
				checkChart(t, &b)
			}
		}
	}
}

var (
	makeTargets = regexp.MustCompile(`\bmake((?: [a-z0-9-]+)+)`)
	pathNames   = regexp.MustCompile(
		`(?:^|[ (])((?:\.\./)?(?:scripts|\.ci|deploy|helm)/\w[\w./-]*|\./[\w./-]+)`,
	)
	testNames = regexp.MustCompile(`\bTest[A-Z]\w*`)
)

// checkNames checks that what the commands of a block name exists: targets of the Makefile, scripts,
// packages and tests.
func checkNames(t *testing.T, b *document.Block) {
	t.Helper()
	makefile, err := os.ReadFile(filepath.Join(repository, "Makefile"))
	require.NoError(t, err)
	names := 0
	for line := range strings.Lines(b.Text) {
		line, _, _ = strings.Cut(line, " #")
		dir := repository
		if to, rest, ok := strings.Cut(line, " && "); ok && strings.HasPrefix(to, "cd ") {
			dir, line = filepath.Join(dir, strings.TrimPrefix(to, "cd ")), rest
		}
		for _, m := range makeTargets.FindAllStringSubmatch(line, -1) {
			for target := range strings.FieldsSeq(m[1]) {
				names++
				found := regexp.MustCompile(`(?m)^` + target + `:`).Match(makefile)
				require.True(t, found, "%s: there is no make %s", b, target)
			}
		}
		for _, m := range pathNames.FindAllStringSubmatch(line, -1) {
			names++
			_, err := os.Stat(strings.TrimSuffix(filepath.Join(dir, m[1]), "/..."))
			require.NoError(t, err, b)
		}
		for _, name := range testNames.FindAllString(line, -1) {
			names++
			grep := exec.CommandContext(t.Context(), "grep", "-rq", "--include=*_test.go",
				"^func "+name, filepath.Join(repository, "libs"), filepath.Join(repository, "e2e"))
			require.NoError(t, grep.Run(), "%s: there is no test %s", b, name)
		}
	}
	if b.Attributes["check"] != "" {
		require.Positive(t, names, "%s names nothing that can be checked", b)
	}
}

var (
	setFlags   = regexp.MustCompile(`--set '?(\S+)`)
	setValues  = regexp.MustCompile(`(?:^|,)([\w.]+)=`)
	kubeNames  = regexp.MustCompile(`\b(get secret|patch secret|deployment) carillon-([\w-]+)`)
	secretKeys = regexp.MustCompile(`(?:/data/|\.data\.)(\w+)`)
)

// checkChart checks that the chart has the values and objects that the commands of a block name.
func checkChart(t *testing.T, b *document.Block) {
	t.Helper()
	chart := filepath.Join(repository, "helm/carillon")
	text, err := os.ReadFile(filepath.Join(chart, "values.yaml"))
	require.NoError(t, err)
	var values map[string]any
	require.NoError(t, yaml.Unmarshal(text, &values))
	for _, flag := range setFlags.FindAllStringSubmatch(b.Text, -1) {
		for _, m := range setValues.FindAllStringSubmatch(flag[1], -1) {
			at := any(values)
			for part := range strings.SplitSeq(m[1], ".") {
				of, ok := at.(map[string]any)
				require.True(t, ok && of[part] != nil, "%s: the chart has no value %s", b, m[1])
				at = of[part]
			}
		}
	}
	keys, err := os.ReadFile(filepath.Join(chart, "templates/keys.yaml"))
	require.NoError(t, err)
	names, err := os.ReadFile(filepath.Join(chart, "templates/_keys.tpl"))
	require.NoError(t, err)
	for _, m := range kubeNames.FindAllStringSubmatch(b.Text, -1) {
		if m[1] == "deployment" {
			require.DirExists(t, filepath.Join(repository, "services", m[2], "cmd"), b)
			continue
		}
		require.Contains(t, string(names), `"carillon.fullname" . }}-`+m[2], b)
		for _, key := range secretKeys.FindAllStringSubmatch(b.Text, -1) {
			require.Contains(t, string(keys), "\n  "+key[1]+": ", b)
		}
	}
}
