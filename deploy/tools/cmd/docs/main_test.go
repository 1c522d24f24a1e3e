package main

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

func repository(readme string) fstest.MapFS {
	return fstest.MapFS{
		"README.md": {Data: []byte(readme)},
		"docs/guide.md": {
			Data: []byte(
				"# A `guide`, to (some) things\n\n## Twice\n\n## Twice\n\n[back](../README.md)\n",
			),
		},
		"libs/a_test.go":  {Data: []byte("package a\n\nfunc TestKept(t *testing.T) {}\n")},
		".cache/other.md": {Data: []byte("[nowhere](nothing.md)\n")},
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ä", maxColumns)
	tests := []struct {
		name, readme string
		want         []string
	}{
		{
			"links that lead somewhere",
			"[g](docs/guide.md) [h](docs/guide.md#a-guide-to-some-things) [i](docs/guide.md#twice-1) [d](docs) [o](https://example.com/x)\n",
			nil,
		},
		{
			"no such file",
			"a\n[g](docs/nothing.md)\n",
			[]string{"README.md:2: docs/nothing.md does not exist"},
		},
		{
			"outside of the repository",
			"[g](../x.md)\n",
			[]string{"README.md:1: ../x.md does not exist"},
		},
		{
			"no such heading",
			"[g](docs/guide.md#more)\n",
			[]string{"README.md:1: docs/guide.md#more is no heading there"},
		},
		{
			"no such heading here",
			"# One\n[g](#two)\n",
			[]string{"README.md:2: #two is no heading there"},
		},
		{"code has no links", "```\n[g](x.md) TestNothing\n```\n`[g](x.md)`\n", nil},
		{
			"a wide line",
			long + "\n" + long + "ä\n",
			[]string{"README.md:2 has 101 columns, more than 100"},
		},
		{
			"tables, code and links may be wide",
			"| " + long + " |\n```\n" + long + long + "\n```\n" + strings.Repeat(
				"ä",
				90,
			) + "[g](docs/guide.md)\n",
			nil,
		},
		{"a test that there is", "`TestKept` proves it.\n", nil},
		{
			"a test that is gone",
			"| a | `TestGone` |\n",
			[]string{"README.md:1: there is no test TestGone"},
		},
		{
			"a README that is too large",
			strings.Repeat("word\n", 1300),
			[]string{"README.md has 6500 bytes, more than 6144"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := check(repository(tt.readme))
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("complaints: %q, want %q", got, tt.want)
			}
		})
	}
}
