package cli

import (
	"cmp"
	"context"
	"crypto/rand"
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

// unfinishedError is an error that leaves open what a command did, with how to go on.
type unfinishedError struct {
	error

	remedy string
}

// lostAnswer comes before the flags that repeat a command.
const lostAnswer = "it may have been done: to do it once, repeat the command with"

func (e *unfinishedError) Error() string { return e.error.Error() + "\n" + e.remedy }

func (e *unfinishedError) Unwrap() error { return e.error }

// key returns the key of the command, which is one for all its requests.
func (t *tool) key() string {
	t.idempotencyKey = cmp.Or(t.idempotencyKey, rand.Text())
	return t.idempotencyKey
}

// doOnce sends a request that makes something anew each time it is sent, such as calls. If it is not
// known whether that was done, the error has the key under which a repetition is done once.
func (t *tool) doOnce(
	ctx context.Context, api *client.Client, path string, query url.Values, body any,
) (client.Object, error) {
	made, err := api.DoOnce(ctx, t.key(), path, query, body)
	if err != nil && !t.dryRun && client.Unknown(err) {
		return nil, &unfinishedError{err, lostAnswer + t.repeatFlags()}
	}
	return made, err //nolint:wrapcheck // it says what the API answered
}
