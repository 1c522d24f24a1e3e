package cli

import (
	"context"
	"net/http"
	"net/url"

	"github.com/spf13/cobra"

	"github.com/carillon-timer/carillon/services/cli/internal/client"
	"github.com/carillon-timer/carillon/services/cli/internal/output"
)

// keys are the keys of one kind, below one path of the API.
type keys struct {
	api  *client.Client
	path string
}

func (k keys) list(ctx context.Context) ([]client.Object, error) {
	found, err := k.api.Get(ctx, k.path, nil)
	if err != nil {
		return nil, err //nolint:wrapcheck // it says what the API answered
	}
	return found.Objects("items"), nil
}

func (k keys) create(ctx context.Context, body client.Object) (client.Object, error) {
	return k.api.Do(ctx, http.MethodPost, k.path, nil, body) //nolint:wrapcheck // as above
}

// remove removes keys and calls removed after each.
func (k keys) remove(ctx context.Context, ids []string, removed func(id string)) error {
	for _, id := range ids {
		path := k.path + "/" + url.PathEscape(id)
		if _, err := k.api.Do(ctx, http.MethodDelete, path, nil, nil); err != nil {
			return err //nolint:wrapcheck // as above
		}
		removed(id)
	}
	return nil
}

// ofApp calls do with the keys of the app below a path.
func (t *tool) ofApp(below string, do func(keys) error) error {
	return t.withApp(func(api *client.Client, app url.Values) error {
		return do(keys{api, "/apps/" + url.PathEscape(app.Get("app")) + below})
	})
}

func (t *tool) keyCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "key",
		Short: "list, create and revoke the API keys of an app, or of the deployment",
		Args:  usageArgs(cobra.NoArgs),
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	var deployment bool
	c.PersistentFlags().BoolVar(&deployment, "deployment", false,
		"keys of the deployment, which are for every app, instead of the app's")
	with := func(do func(keys) error) error {
		if deployment {
			return t.withClient(func(api *client.Client) error { return do(keys{api, "/keys"}) })
		}
		return t.ofApp("/keys", do)
	}
	var scope string
	create := &cobra.Command{
		Use:   "create NAME",
		Short: "create an API key; it is shown this once",
		Args:  usageArgs(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, args []string) error {
			return with(func(k keys) error {
				made, err := k.create(c.Context(), client.Object{"name": args[0], "scope": scope})
				if err != nil {
					return err
				}
				return t.printer.OneByID(made)
			})
		},
	}
	create.Flags().
		StringVar(&scope, "scope", "read", "what it may do: read, operate, write or admin")
	c.AddCommand(
		&cobra.Command{
			Use: "list", Short: "list the API keys, newest first", Args: usageArgs(cobra.NoArgs),
			RunE: func(c *cobra.Command, _ []string) error {
				return with(func(k keys) error {
					found, err := k.list(c.Context())
					if err != nil {
						return err
					}
					columns := []output.Column{
						output.Field("ID", "id"),
						output.Field("NAME", "name"),
						output.Field("SCOPE", "scope"),
						createdColumn,
					}
					if deployment || len(found) > 0 {
						return t.printer.ListByID(found, columns)
					}
					return t.listOfApp(c.Context(), k.api, found, columns)
				})
			},
		},
		t.withDryRun(create),
		t.withDryRun(&cobra.Command{
			Use: "revoke ID...", Short: "revoke API keys", Args: usageArgs(cobra.MinimumNArgs(1)),
			RunE: func(c *cobra.Command, ids []string) error {
				return with(func(k keys) error {
					return k.remove(c.Context(), ids, func(id string) {
						t.sayf("key %s %s", id, t.done("revoked"))
					})
				})
			},
		}),
	)
	return c
}

var createdColumn = output.Column{
	Head: "CREATED",
	Cell: func(o client.Object) string { return localTime(o.Text("created_at")) },
}

func (t *tool) signingKeyCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "signing-key",
		Short: "list, create and retire the keys that sign the callbacks of an app",
		Args:  usageArgs(cobra.NoArgs),
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	const below = "/signing-keys"
	var kind string
	create := &cobra.Command{
		Use:   "create",
		Short: "create a signing key; its secret is shown this once",
		Args:  usageArgs(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			return t.ofApp(below, func(k keys) error {
				made, err := k.create(c.Context(), client.Object{"kind": kind})
				if err != nil {
					return err
				}
				return t.printer.One(made)
			})
		},
	}
	create.Flags().StringVar(&kind, "kind", "hmac",
		"what receivers verify by: hmac (the secret) or ed25519 (the public key)")
	c.AddCommand(
		&cobra.Command{
			Use:   "list",
			Short: "list the signing keys, newest first",
			Args:  usageArgs(cobra.NoArgs),
			RunE: func(c *cobra.Command, _ []string) error {
				return t.ofApp(below, func(k keys) error {
					found, err := k.list(c.Context())
					if err != nil {
						return err
					}
					return t.listOfApp(c.Context(), k.api, found, []output.Column{
						output.Field("ID", "id"),
						output.Field("KIND", "kind"),
						output.Field("PUBLIC", "public"),
						createdColumn,
					})
				})
			},
		},
		t.withDryRun(create),
		t.withDryRun(&cobra.Command{
			Use: "retire ID...", Short: "retire signing keys: they sign no more callbacks",
			Args: usageArgs(cobra.MinimumNArgs(1)),
			RunE: func(c *cobra.Command, ids []string) error {
				return t.ofApp(below, func(k keys) error {
					return k.remove(c.Context(), ids, func(id string) {
						t.sayf("signing key %s %s", id, t.done("retired"))
					})
				})
			},
		}),
	)
	return c
}
