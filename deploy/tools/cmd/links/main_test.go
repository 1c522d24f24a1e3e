package main

import (
	"slices"
	"testing"
	"testing/fstest"
)

func TestCheck(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, body string
		want       []string
	}{
		{
			"links that lead somewhere",
			`<a href="a/b.html">b</a><a href="a/b.html#x">x</a><a href="#here">h</a><p id="here">` +
				`<a href="https://example.com/#y">y</a><a href="a/">a</a><script src="s.js"></script>`,
			nil,
		},
		{
			"no such page",
			`<a href="a/c.html">c</a>`,
			[]string{"index.html: a/c.html does not exist"},
		},
		{"a folder", `<a href="a">a</a>`, []string{"index.html: a does not exist"}},
		{
			"no such anchor",
			`<a href="a/b.html#z">z</a>`,
			[]string{"index.html: a/b.html#z is no anchor there"},
		},
		{
			"the root of a server",
			`<a href="/a/b.html">b</a>`,
			[]string{"index.html: /a/b.html works only at the root of a server"},
		},
		{
			"outside of the site",
			`<a href="../b.html">b</a>`,
			[]string{"index.html: ../b.html leads outside of the site"},
		},
		{
			"a script from elsewhere",
			`<script src="https://example.com/s.js"></script>`,
			[]string{"index.html: loads https://example.com/s.js from elsewhere"},
		},
		{
			"an anchor twice",
			`<p id="x"></p><p id="x"></p>`,
			[]string{"index.html: has the anchor #x twice"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, _, _, err := check(fstest.MapFS{
				"index.html":   {Data: []byte("<html><body>" + tt.body)},
				"s.js":         {},
				"a/index.html": {Data: []byte("<html>")},
				"a/b.html": {
					Data: []byte(`<html><body><h2 id="x">x</h2><a href="../index.html">up</a>`),
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("complaints: %q, want %q", got, tt.want)
			}
		})
	}
}

func TestEmptySite(t *testing.T) {
	t.Parallel()
	if _, _, _, err := check(fstest.MapFS{}); err == nil {
		t.Error("a site without pages is not ok")
	}
}
