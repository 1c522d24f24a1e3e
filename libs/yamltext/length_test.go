package yamltext_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/yamltext"
)

func TestAliasesCountAsWhatTheyStandFor(t *testing.T) {
	t.Parallel()
	const most = 2 << 20
	long := "a: &a " + strings.Repeat("b", 20_000) + "\nc: [" + strings.Repeat("*a,", 5000) + "]"
	require.Less(t, len(long), 40_000)
	doubled := "l0: &l0 [x]\n"
	for i := range 70 { // 2^70 is more than an int has
		doubled += fmt.Sprintf("l%d: &l%d [*l%d, *l%d]\n", i+1, i+1, i, i)
	}
	for name, text := range map[string]string{
		"a long text":             long,
		"doubled on each line":    doubled,
		"an anchor within itself": "&a [*a]",
		"an anchor far within":    "x: &a {y: [{z: *a}]}",
		"a long text without any": strings.Repeat("b", most),
	} {
		require.ErrorContains(t, yamltext.CheckLength([]byte(text), most), "aliases", name)
	}
	for _, text := range []string{
		"", "labels: {a: &v x, b: *v}", "a: &a {x: 1}\nb: {<<: *a, y: 2}",
		strings.Repeat("b", most-2),
	} {
		require.NoError(t, yamltext.CheckLength([]byte(text), most), "%.40q", text)
	}
	require.Error(t, yamltext.CheckLength([]byte("a: [*b]"), most), "an unknown anchor")
}
