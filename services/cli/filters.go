package cli

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// filtering refuses flags without a value of a command whose flags select something.
func filtering(c *cobra.Command) *cobra.Command {
	c.PreRunE = func(c *cobra.Command, _ []string) error { return noEmptyFilter(c, c.LocalFlags()) }
	return c
}

// noEmptyFilter refuses one of some flags without a value, such as a script's empty variable: without
// a filter, more would be selected than was meant, or all.
func noEmptyFilter(c *cobra.Command, own *pflag.FlagSet) (err error) {
	c.Flags().Visit(func(f *pflag.Flag) {
		if v := f.Value.String(); own.Lookup(f.Name) != nil && (v == "" || v == "[]") {
			err = usageError("--" + f.Name + ": expected a value, found none: leave the flag out")
		}
	})
	return err
}
