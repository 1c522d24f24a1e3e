package main

import (
	"strings"
	"testing"
)

func TestTable(t *testing.T) {
	t.Parallel()
	got, err := table([]byte(`# About the file.

# First line,
# second | line.
name: ""
# A group.
group:
  # How many.
  n: 3
  flow: {a: 1, b: [x, "y"]}
  # Deeper.
  deep:
    list: []
`))
	if err != nil {
		t.Fatal(err)
	}
	const want = "\n| value | default | what |\n|---|---|---|\n" +
		"| `name` | `\"\"` | First line, second \\| line. |\n" +
		"\n### group\n\nA group.\n\n| value | default | what |\n|---|---|---|\n" +
		"| `group.n` | `3` | How many. |\n" +
		"| `group.flow` | `{a: 1, b: [x, \"y\"]}` |  |\n" +
		"| `group.deep` | | Deeper. |\n" +
		"| `group.deep.list` | `[]` |  |\n"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestWrap(t *testing.T) {
	t.Parallel()
	fits, long := strings.Repeat("ä", maxColumns-2), strings.Repeat("b", maxColumns+1)
	got, want := wrap("x "+fits+" y  z "+long), "x "+fits+"\ny z\n"+long
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
