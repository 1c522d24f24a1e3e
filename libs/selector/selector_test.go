package selector_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/carillon-timer/carillon/libs/selector"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                                 "",
		" \t":                              "",
		"team=pay,env!=dev,tier in (a,b)":  "env!=dev,team=pay,tier in (a,b)",
		"!x,x notin (a)":                   "!x,x!=a",
		"x notin (b, a ,b)":                "x notin (a,b)",
		"x == y":                           "x=y",
		"notin in (notin,x)":               "notin in (notin,x)",
		"x=in,notin":                       "notin,x=in",
		"x=":                               `x=""`,
		"x!=,y":                            `x!="",y`,
		"x in ()":                          `x=""`,
		"x in (,a)":                        `x in ("",a)`,
		`"a b"="c, d"`:                     `"a b"="c, d"`,
		`"a"="b"`:                          "a=b",
		`x="say \"hi\""`:                   `x="say \"hi\""`,
		`x in ("a,b",c)`:                   `x in ("a,b",c)`,
		"url=https://pay.example:8443/a?b": "url=https://pay.example:8443/a?b",
		"größe=groß":                       "größe=groß",
	} {
		s, err := selector.Parse(text)
		require.NoError(t, err, text)
		require.Equal(t, want, s.String(), text)
		again, err := selector.Parse(want)
		require.NoError(t, err, want)
		require.Equal(t, s, again)
	}
}

func TestParseErrors(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"a,":                      `expected a label after the comma, found the end after "a,"`,
		",a":                      `expected the name of a label, found "," after ""`,
		"=a":                      `expected the name of a label, found "=" after ""`,
		"!":                       `expected the name of a label, found the end after "!"`,
		`""=a`:                    `expected the name of a label, found "\"\"" after ""`,
		"a=b c":                   `expected a comma or the end, found "c" after "a=b "`,
		"a in b":                  `expected ( after in, found "b" after "a in "`,
		"a in (b":                 `expected a comma or ), found the end after "a in (b"`,
		"a>3":                     `expected =, !=, in or notin, found ">" after "a": quote it if it is part of a value`,
		`a="b`:                    `expected text that ends with ", found none after "a="`,
		"a=" + longText(257):      `expected at most 256 bytes of UTF-8 for a name or value, found other text after "a="`,
		"a=\xff":                  `expected at most 256 bytes of UTF-8 for a name or value, found other text after "a="`,
		longText(4097):            "expected at most 4096 bytes, found 4097",
		strings.Repeat("a,", 17):  "expected at most 16 requirements, found more",
		"a in (" + manyValues(33): `expected at most 32 values of "a", found more`,
	} {
		_, err := selector.Parse(text)
		require.EqualError(t, err, want, text)
	}
}

func longText(n int) string   { return strings.Repeat("x", n) }
func manyValues(n int) string { return strings.Repeat("v,", n-1) + "v)" }

func TestMatches(t *testing.T) {
	t.Parallel()
	labels := map[string]string{"team": "pay", "tier": "a", "empty": ""}
	for text, want := range map[string]bool{
		"":                        true,
		"team=pay":                true,
		"team=other":              false,
		"team!=pay":               false,
		"missing!=x":              true,
		"missing=":                false,
		"empty=":                  true,
		"tier in (a,b),team":      true,
		"tier notin (a,b)":        false,
		"missing notin (a)":       true,
		"!team":                   false,
		"!missing":                true,
		"team=pay,tier=b":         false,
		"team in (pay),team!=web": true,
	} {
		s, err := selector.Parse(text)
		require.NoError(t, err, text)
		require.Equal(t, want, s.Matches(labels), text)
	}
}

// FuzzParse checks that a text that parses has a canonical form that parses to the same.
func FuzzParse(f *testing.F) {
	for _, text := range []string{"a=b", "a in (b,c),!d", `"a b"!="\x00"`, "a=,b", "x notin ()"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := selector.Parse(text)
		if err != nil {
			return
		}
		if len(s.String()) > selector.MaxLen {
			return // quotes and escapes make it longer
		}
		again, err := selector.Parse(s.String())
		require.NoError(t, err, s.String())
		require.Equal(t, s, again)
	})
}

// TestSameAsKubernetes compares with the parser of Kubernetes, on random texts that both may take.
func TestSameAsKubernetes(t *testing.T) {
	t.Parallel()
	parts := []string{
		"a", "b", "in", "notin", "x-1", " ", " ", ",", ",", "=", "==", "!=", "!", "(", ")",
		" in (", " notin (", ")", "a=b", "a in (a,b)", "!b",
	}
	r := rand.New(rand.NewPCG(1, 2))
	taken := 0
	for range 200_000 {
		var b strings.Builder
		for range 1 + r.IntN(7) {
			b.WriteString(parts[r.IntN(len(parts))])
		}
		text := b.String()
		want, wantErr := labels.Parse(text)
		got, err := selector.Parse(text)
		if wantErr != nil {
			// Its parser stops at two commas in a list.
			if !strings.Contains(strings.ReplaceAll(text, " ", ""), ",,") {
				require.Error(t, err, text)
			}
			continue
		}
		require.NoError(t, err, text)
		taken++
		reqs, _ := want.Requirements()
		require.Len(t, got, len(reqs), text)
		for _, set := range []labels.Set{
			{},
			{"a": "a"},
			{"a": "b"},
			{"a": ""},
			{"b": "a"},
			{"a": "b", "b": "b"},
			{"in": "a"},
			{"notin": "in"},
			{"x-1": ""},
			{"in": "in", "notin": "b"},
		} {
			require.Equal(t, want.Matches(set), got.Matches(set), "%s %v", text, set)
		}
	}
	require.Greater(t, taken, 10_000)
	require.Equal(t, string(selection.In), string(selector.In))
	require.Equal(t, string(selection.NotIn), string(selector.NotIn))
}
