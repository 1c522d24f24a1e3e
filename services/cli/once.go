package cli

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"net/url"

	"github.com/spf13/cobra"

	"github.com/carillon-timer/carillon/services/cli/internal/client"
)

// withKey adds the flag that repeats a command whose answer was lost.
func (t *tool) withKey(c *cobra.Command) *cobra.Command {
	c.Flags().StringVar(
		&t.idempotencyKey,
		"idempotency-key",
		"",
		"repeat a command whose answer was lost under the key that it named, so that it is done once",
	)
	return c
}

// doOnce sends a request that makes something anew each time it is sent, such as calls. If it is not
// known whether that was done, the error has the key under which a repetition is done once.
func (t *tool) doOnce(
	ctx context.Context, api *client.Client, path string, query url.Values, body any,
) (client.Object, error) {
	t.idempotencyKey = cmp.Or(t.idempotencyKey, rand.Text())
	made, err := api.DoOnce(ctx, t.idempotencyKey, path, query, body)
	if err != nil && !t.dryRun && client.Unknown(err) {
		return nil, fmt.Errorf(
			"%w\nit may have been done: to do it once, repeat the command with --idempotency-key %s",
			err,
			t.idempotencyKey,
		)
	}
	return made, err //nolint:wrapcheck // it says what the API answered
}
