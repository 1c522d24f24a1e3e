package cli

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"

	"github.com/spf13/cobra"

	"github.com/carillon-timer/carillon/services/cli/internal/client"
)

func (t *tool) appLimit() *cobra.Command {
	var rate float64
	var burst, concurrent int
	var create bool
	c := &cobra.Command{
		Use:   "limit [APP]",
		Short: "change the limits of the app; those that are not named stay",
		Example: `  carillon app limit shop --rate 50 --burst 100
  carillon app limit desk --rate 5 --create`,
		Args: usageArgs(cobra.MaximumNArgs(1)),
		RunE: func(c *cobra.Command, args []string) error {
			if err := t.takeApp(args); err != nil {
				return err
			}
			return t.changeSettings(c, create, func(settings client.Object) error {
				for name, value := range map[string]any{
					"rate": rate, "burst": burst, "concurrent": concurrent,
				} {
					if c.Flags().Changed(name) {
						settings[name] = value
					}
				}
				return nil
			})
		},
	}
	c.Flags().Float64Var(&rate, "rate", 0, "calls started per second; 0 is no limit")
	c.Flags().IntVar(&burst, "burst", 0, "calls that may start at one moment; 0: as many as --rate")
	c.Flags().IntVar(&concurrent, "concurrent", 0, "calls at once; 0 is no limit")
	createFlag(c, &create)
	return t.withDryRun(c)
}

func (t *tool) appAllow() *cobra.Command {
	var remove []string
	var create bool
	c := &cobra.Command{
		Use:   "allow [RULE…]",
		Short: "add rules that open addresses to the app's timers, and remove others",
		Long: "Add rules that open addresses to the app's timers, and remove others. All arguments are rules,\n" +
			"because the name of an app may be that of a host: give the app by --app.",
		Example: `  carillon app allow --app shop 10.20.0.0/16:8080 '*.example.com:8443'
  carillon app allow --app shop --remove 10.20.0.0/16:8080`,
		RunE: func(c *cobra.Command, add []string) error {
			if err := usageArgs(cobra.ArbitraryArgs)(c, add); err != nil {
				return err
			}
			if len(add)+len(remove) == 0 {
				return usageError(
					"no rule: name those to add, or --remove one; carillon app settings shows those of the app",
				)
			}
			return t.changeSettings(c, create, func(settings client.Object) error {
				had, _ := settings["allow"].([]any)
				for _, rule := range remove {
					if !slices.Contains(had, any(rule)) {
						return fmt.Errorf(
							"the app has no rule %q: carillon app settings shows its rules", rule,
						)
					}
				}
				rules := []any{}
				for _, rule := range had {
					if text, _ := rule.(string); !slices.Contains(remove, text) {
						rules = append(rules, rule)
					}
				}
				for _, rule := range add {
					if !slices.Contains(rules, any(rule)) {
						rules = append(rules, rule)
					}
				}
				settings["allow"] = rules
				return nil
			})
		},
	}
	c.Flags().StringArrayVar(&remove, "remove", nil, "a `RULE` to remove; may be repeated")
	createFlag(c, &create)
	return t.withDryRun(c)
}

func createFlag(c *cobra.Command, create *bool) {
	c.Flags().BoolVar(create, "create", false, "make the app if there is none of this name")
}

// changeSettings changes some settings of the app and keeps the others. The version that was read
// makes a change in the meantime a conflict. Without --create it makes no app: under a mistyped name
// that would look like success.
func (t *tool) changeSettings(
	c *cobra.Command, create bool, change func(settings client.Object) error,
) error {
	return t.withApp(func(api *client.Client, app url.Values) error {
		path := "/apps/" + url.PathEscape(app.Get("app")) + "/settings"
		was, err := api.Get(c.Context(), path, nil)
		switch {
		case err == nil:
		case !client.NotFound(err):
			return err //nolint:wrapcheck // it says what the API answered
		case !create:
			return fmt.Errorf("%w\n--create makes an app that does not exist yet", err)
		}
		body := client.Object{}
		for _, name := range []string{"allow", "rate", "burst", "concurrent"} {
			if had, ok := was[name]; ok {
				body[name] = had
			}
		}
		if err := change(body); err != nil {
			return err
		}
		if was.Int("version") > 0 {
			body["if_version"] = was["version"]
		}
		now, err := api.Do(c.Context(), http.MethodPut, path, nil, body)
		if err != nil {
			return err //nolint:wrapcheck // it says what the API answered
		}
		return t.printer.One(now)
	})
}
