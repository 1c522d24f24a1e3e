package cli

import (
	"net/http"

	"github.com/spf13/cobra"

	"github.com/carillon-timer/carillon/services/cli/internal/client"
)

func (t *tool) personCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "person",
		Short: "end the sessions of a person who signed in to the page",
		Args:  usageArgs(cobra.NoArgs),
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(t.withDryRun(&cobra.Command{
		Use:   "end-sessions ID...",
		Short: "end the sessions of people by their ids at the identity provider",
		Long: "The audit trail has these ids as those of actors. The people may sign in again: if they\n" +
			"should not, take their groups away at the identity provider first.",
		Example: "  carillon person end-sessions 248289761001",
		Args:    usageArgs(cobra.MinimumNArgs(1)),
		RunE: func(c *cobra.Command, subjects []string) error {
			return t.withClient(func(api *client.Client) error {
				for _, subject := range subjects {
					ended, err := api.Do(
						c.Context(),
						http.MethodPost,
						"/people/end-sessions",
						nil,
						client.Object{"subject": subject},
					)
					if err != nil {
						return err //nolint:wrapcheck // it says what the API answered
					}
					t.sayf("sessions of %s from before %s %s", printable(subject),
						localTime(ended.Text("ended_before")), t.done("ended"))
				}
				return nil
			})
		},
	}))
	return c
}
