package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// oneDash returns an error for an argument of one dash that is the name of a long flag of the command:
// the services take -app, but here it is -a with the value pp.
func oneDash(root *cobra.Command, args []string) error {
	if len(args) > 0 && strings.HasPrefix(args[0], cobra.ShellCompRequestCmd) {
		return nil // what is typed is not complete
	}
	c, _, err := root.Find(args)
	if err != nil || c.DisableFlagParsing {
		return nil //nolint:nilerr // the command itself tells it
	}
	c.InitDefaultHelpFlag() // and adds the flags of the commands above it
	for i := 0; i < len(args) && args[i] != "--"; i++ {
		word, long := strings.CutPrefix(args[i], "--")
		name, _, hasValue := strings.Cut(strings.TrimPrefix(word, "-"), "=")
		f := c.Flags().Lookup(name)
		switch {
		case long:
		case !strings.HasPrefix(word, "-"):
			continue
		case len(name) > 1 && f != nil:
			return usageError(fmt.Sprintf(
				"-%s: a flag of more than one letter has two dashes: write --%s", name, name,
			))
		case len(name) == 1:
			f = c.Flags().ShorthandLookup(name)
		default:
			continue
		}
		if f != nil && !hasValue && f.NoOptDefVal == "" {
			i++ // its value, which may begin with a dash
		}
	}
	return nil
}
