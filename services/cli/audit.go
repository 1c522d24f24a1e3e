package cli

import (
	"cmp"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/carillon-timer/carillon/services/cli/internal/client"
	"github.com/carillon-timer/carillon/services/cli/internal/output"
)

func (t *tool) auditCommand() *cobra.Command {
	var deployment bool
	var limit int
	c := &cobra.Command{
		Use:   "audit",
		Short: "list who changed what in the app, the newest first",
		Example: `  carillon audit --timer invoices
  carillon audit --kind settings --from -24h -o yaml`,
		Args: usageArgs(cobra.NoArgs),
	}
	f := c.Flags()
	texts := map[string]*string{
		"timer": f.String("timer", "", "only changes of this timer, by its name or id"),
		"kind": f.String(
			"kind",
			"",
			"only of this kind: timer, app, settings, calendar, api_key, …",
		),
		"resource": f.String(
			"resource",
			"",
			"only of the resource with this id or name; needs --kind",
		),
		"action": f.String("action", "", "only these changes: create, update, delete, pause, …"),
		"actor":  f.String("actor", "", "only by this actor, such as the id of an API key"),
	}
	instants := map[string]*string{
		"from": f.String("from", "", "only those at this instant or later, such as -24h"),
		"to":   f.String("to", "", "only those before this instant"),
	}
	f.BoolVar(
		&deployment,
		"deployment",
		false,
		"changes of the deployment's own API keys and ends of sessions instead",
	)
	f.IntVar(&limit, "limit", defaultFires, "list at most so many; 0 lists all")
	c.RunE = func(c *cobra.Command, _ []string) error {
		query := url.Values{}
		for name, text := range texts {
			if *text != "" {
				query.Set(name, *text)
			}
		}
		if err := setInstants(query, instants); err != nil {
			return err
		}
		list := func(api *client.Client, path string) error {
			entries, err := api.All(c.Context(), path, query, limit)
			if err != nil {
				return err //nolint:wrapcheck // it says what the API answered
			}
			if deployment {
				return t.printer.ListByID(entries, auditColumns())
			}
			return t.listOfApp(c.Context(), api, entries, auditColumns())
		}
		if deployment {
			return t.withClient(func(api *client.Client) error { return list(api, "/audit") })
		}
		return t.withApp(func(api *client.Client, app url.Values) error {
			return list(api, appPath(app, "/audit"))
		})
	}
	return c
}

func auditColumns() []output.Column {
	return []output.Column{
		{Head: "AT", Cell: func(o client.Object) string { return localTime(o.Text("at")) }},
		{Head: "ACTOR", Cell: describeActor},
		output.Field("ACTION", "action"),
		output.Field("KIND", "kind"),
		{Head: "RESOURCE", Cell: func(o client.Object) string {
			return printable(cmp.Or(o.Text("name"), o.Text("resource")))
		}},
		{Head: "CHANGED", Cell: describeChange},
		{Head: "ADDRESS", Cell: func(o client.Object) string {
			return printable(o.Object("actor").Text("address"))
		}, Wide: true},
		{Head: "REQUEST", Cell: func(o client.Object) string {
			return printable(o.Text("request_id"))
		}, Wide: true},
	}
}

// describeActor names an actor as people know it.
func describeActor(o client.Object) string {
	actor := o.Object("actor")
	text := cmp.Or(actor.Text("name"), actor.Text("id"), actor.Text("kind"))
	if job := actor.Text("job"); job != "" {
		text += " (job " + job + ")"
	}
	return printable(text)
}

// describeChange names the fields that differ. A status is shown with its value.
func describeChange(o client.Object) string {
	switch o.Text("action") {
	case "run", "test", "complete": // they change no field
		return ""
	}
	before, after := o.Object("before"), o.Object("after")
	// What has no fields is left out, as settings are without a limit.
	if o.Text("action") != "update" && (before == nil || after == nil) {
		return ""
	}
	var changed []string
	for _, name := range differing(before, after) {
		switch name {
		case "version":
		case "definition":
			changed = append(changed, differing(before.Object(name), after.Object(name))...)
		case "status":
			changed = append(changed, before.Text(name)+"→"+after.Text(name))
		default:
			changed = append(changed, name)
		}
	}
	return printable(strings.Join(changed, ", "))
}

// differing returns the names of the fields that two objects have not in common, sorted.
func differing(a, b client.Object) (names []string) {
	both := client.Object{}
	maps.Copy(both, a)
	maps.Copy(both, b)
	for _, name := range slices.Sorted(maps.Keys(both)) {
		if !reflect.DeepEqual(a[name], b[name]) {
			names = append(names, name)
		}
	}
	return names
}
