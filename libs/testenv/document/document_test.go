package document_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/testenv/document"
)

const text = "# A guide\n" +
	"\n" +
	"```sh {background=\"http://127.0.0.1:8081/readyz\" .repository}\n" +
	"make run\n" +
	"```\n" +
	"\n" +
	"1. A step:\n" +
	"\n" +
	"   ```text {file=\"a.txt\"}\n" +
	"   one\n" +
	"     two\n" +
	"   ```\n" +
	"\n" +
	"```\n" +
	"plain\n" +
	"```\n"

func TestBlocks(t *testing.T) {
	t.Parallel()
	require.Equal(t, []document.Block{
		{
			Page: "guide.md", Line: 3, Language: "sh", Text: "make run\n",
			Attributes: map[string]string{
				"background": "http://127.0.0.1:8081/readyz", "repository": "true",
			},
		},
		{
			Page: "guide.md", Line: 9, Language: "text", Text: "one\n  two\n",
			Attributes: map[string]string{"file": "a.txt"},
		},
		{Page: "guide.md", Line: 14, Text: "plain\n", Attributes: map[string]string{}},
	}, document.Blocks("guide.md", text))
}

func TestBlocksOfARepository(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for name, text := range map[string]string{
		"docs/a.md":   text,
		"docs/b.md":   "Nothing to run.\n",
		"docs/c.md":   "```sh {needs=\"kubernetes\"}\nkubectl version\n```\n",
		"dist/d.md":   text,
		".cache/e.md": text,
		"f.txt":       text,
	} {
		file := filepath.Join(root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o750))
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	}
	all, err := document.Read(root)
	require.NoError(t, err)
	require.Len(t, all, 2)
	require.Len(t, all["docs/a.md"], 3)

	some, err := document.Needing(root, "docs/c.md", "kubernetes")
	require.NoError(t, err)
	require.Len(t, some, 1)
	require.Equal(t, "docs/c.md:1", some[0].String())
	_, err = document.Needing(root, "docs/c.md", "docker")
	require.ErrorContains(t, err, "docs/c.md has no block that needs docker")
}

func TestRun(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("SKIPPED, UNTESTED: commands of documents: there is no bash")
	}
	dir := t.TempDir()
	blocks := document.Blocks("a.md", "```sh\nx=from\n```\n\n```sh\necho \"$x HOST $Y\"\n```\n")
	out, err := document.Run(t.Context(), dir, []string{"Y=here"}, blocks, "HOST", "127.0.0.1")
	require.NoError(t, err)
	require.Equal(t, "from 127.0.0.1 here\n", out)

	blocks = document.Blocks("b.md", "```sh\nls nothing | cat\necho after\n```\n")
	out, err = document.Run(t.Context(), dir, nil, blocks)
	require.ErrorContains(t, err, "the commands of b.md")
	require.NotContains(t, out, "after")
}
