package cli_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/services/cli"
	"github.com/carillon-timer/carillon/services/servicetest/devtest"
)

// word matches a word of a command line, with quotes.
var word = regexp.MustCompile(`'[^']*'|"[^"]*"|[^ ]+`)

// TestExamplesAreValid checks that the examples of the commands, which docs/commands.md shows, are
// valid command lines.
func TestExamplesAreValid(t *testing.T) {
	t.Parallel()
	root := cli.Root(devtest.NoEnv, strings.NewReader(""), t.Output(), t.Output())
	checked := 0
	var check func(of *cobra.Command)
	check = func(of *cobra.Command) {
		for line := range strings.Lines(of.Example) {
			line, _, _ = strings.Cut(strings.TrimSpace(line), " > ")
			line, _, _ = strings.Cut(line, "  #")
			var args []string
			for _, w := range word.FindAllString(line, -1) {
				args = append(args, strings.Trim(w, `"'`))
			}
			require.Equal(t, "carillon", args[0], line)
			c, rest, err := root.Find(args[1:])
			require.NoError(t, err, line)
			require.True(t, c.Runnable(), line)
			require.NoError(t, c.ParseFlags(rest), line)
			require.NoError(t, c.ValidateArgs(c.Flags().Args()), line)
			checked++
		}
		for _, c := range of.Commands() {
			check(c)
		}
	}
	check(root)
	require.Greater(t, checked, 20)
}
