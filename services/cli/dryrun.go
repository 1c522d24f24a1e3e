package cli

import "github.com/spf13/cobra"

// withDryRun gives a command that writes the flag --dry-run. With it, every write of the command is
// a dry run of the API, see client.Client.
func (t *tool) withDryRun(c *cobra.Command) *cobra.Command {
	c.Flags().BoolVar(
		&t.dryRun, "dry-run", false, "change nothing; show what the API would answer",
	)
	return c
}

// done returns what was done to something, or would be.
func (t *tool) done(what string) string {
	if t.dryRun {
		return "would be " + what
	}
	return what
}
