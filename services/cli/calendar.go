package cli

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/carillon-timer/carillon/services/cli/internal/client"
	"github.com/carillon-timer/carillon/services/cli/internal/manifest"
	"github.com/carillon-timer/carillon/services/cli/internal/output"
)

func (t *tool) calendarCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "calendar",
		Aliases: []string{"calendars"},
		Short:   "list, show, import and delete calendars; apply creates and changes them",
		Args:    usageArgs(cobra.NoArgs),
		RunE:    func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(t.calendarList(), t.calendarGet(), t.calendarImport(), t.calendarDelete())
	return c
}

func calendarColumns() []output.Column {
	count := func(head, field string) output.Column {
		return output.Column{Head: head, Cell: func(o client.Object) string {
			return strconv.Itoa(len(o.List(field)))
		}}
	}
	return []output.Column{
		output.Field("NAME", "name"),
		output.Field("TIME ZONE", "time_zone"),
		count("EXCLUDED DATES", "excluded_dates"),
		count("INCLUDED DATES", "included_dates"),
		count("EXCLUDED WEEKDAYS", "excluded_weekdays"),
		output.Field("VERSION", "version").AsWide(),
		{
			Head: "UPDATED",
			Cell: func(o client.Object) string { return localTime(o.Text("updated_at")) },
			Wide: true,
		},
	}
}

func (t *tool) calendarList() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "list the calendars of an app, by name",
		Args:  usageArgs(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			return t.withApp(func(api *client.Client, app url.Values) error {
				all, err := api.All(c.Context(), "/calendars", app, 0)
				if err != nil {
					return err //nolint:wrapcheck // it says what the API answered
				}
				return t.listOfApp(c.Context(), api, all, calendarColumns())
			})
		},
	}
}

// onCalendar returns a command about one calendar.
func (t *tool) onCalendar(
	use, short string,
	do func(c *cobra.Command, api *client.Client, path string, app url.Values, name string) error,
) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Args: usageArgs(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, args []string) error {
			return t.withApp(func(api *client.Client, app url.Values) error {
				return do(c, api, "/calendars/"+url.PathEscape(args[0]), app, args[0])
			})
		},
	}
}

func (t *tool) calendarGet() *cobra.Command {
	return t.onCalendar("get NAME", "show a calendar",
		func(c *cobra.Command, api *client.Client, path string, app url.Values, _ string) error {
			found, err := api.Get(c.Context(), path, app)
			if err != nil {
				return err //nolint:wrapcheck // it says what the API answered
			}
			found["kind"] = string(manifest.Calendar) // so that apply takes it
			return t.printer.One(found)
		})
}

func (t *tool) calendarDelete() *cobra.Command {
	c := t.onCalendar("delete NAME", "delete a calendar that no timer names",
		func(c *cobra.Command, api *client.Client, path string, app url.Values, name string) error {
			if _, err := api.Do(c.Context(), http.MethodDelete, path, app, nil); err != nil {
				return err //nolint:wrapcheck // it says what the API answered
			}
			t.sayf("calendar %s %s", name, t.done("deleted"))
			return nil
		})
	return t.withDryRun(c)
}

func (t *tool) calendarImport() *cobra.Command {
	var file string
	c := t.onCalendar(
		"import NAME --file FILE",
		"take the dates of an iCalendar file into a calendar",
		func(c *cobra.Command, api *client.Client, path string, app url.Values, name string) error {
			if file == "" {
				return usageError("--file: expected an iCalendar file (.ics)")
			}
			data, err := os.ReadFile(file)
			if err != nil {
				return fmt.Errorf("--file: %w", err)
			}
			var was client.Object
			if t.dryRun && t.printer.Human() {
				if was, err = api.Get(c.Context(), path, app); err != nil && !client.NotFound(err) {
					return err //nolint:wrapcheck // it says what the API answered
				}
			}
			made, err := api.Upload(
				c.Context(),
				http.MethodPost,
				path+"/import",
				app,
				data,
				"text/calendar",
			)
			if err != nil {
				return err //nolint:wrapcheck // it says what the API answered
			}
			if !t.printer.Human() {
				return t.printer.One(made)
			}
			t.sayImport(name, was, made)
			return nil
		},
	)
	c.Flags().StringVarP(&file, "file", "f", "", "iCalendar file")
	return t.withDryRun(c)
}

// sayImport says what an import took. In a dry run was is the calendar before it, or nil.
func (t *tool) sayImport(name string, was, made client.Object) {
	read := made.Object("import")
	if t.dryRun {
		t.sayDates(name, read.Int("dates"), missingDates(made, was, "excluded_dates"))
	} else {
		t.sayf("calendar %s: %s dates taken", name, read.Text("dates"))
	}
	if n := read.Int("timed_events"); n > 0 {
		t.sayf(
			"calendar %s: note: events with times of day: %d; the dates that they touch are "+
				"excluded as a whole",
			name,
			n,
		)
	}
	var zones []string
	for _, zone := range read.List("unknown_zones") {
		zones = append(zones, printable(fmt.Sprint(zone)))
	}
	if len(zones) > 0 {
		t.sayf(
			"calendar %s: note: unknown time zones: %s; their times count as in the zone of "+
				"the calendar",
			name,
			strings.Join(zones, ", "),
		)
	}
	if from := read.Text("endless_from"); from != "" {
		t.sayf("calendar %s: note: rules without an end count from %s on", name, from)
	}
	if until := read.Text("endless_until"); until != "" {
		t.sayf(
			"calendar %s: note: rules without an end count up to %s: import the file again "+
				"before that",
			name,
			until,
		)
	}
}

// sayDates says which dates an import would add, of all that the file has.
func (t *tool) sayDates(name string, all int64, added []string) {
	const most = 10
	t.sayf(
		"calendar %s: %d dates would be taken, of which it has %d already", name, all,
		max(all-int64(len(added)), 0),
	)
	for _, date := range added[:min(most, len(added))] {
		t.sayf("  %s", date)
	}
	if n := len(added) - most; n > 0 {
		t.sayf("  and %d more", n)
	}
}

// missingDates returns the dates of one calendar that another has not, in the order of the first.
func missingDates(of, in client.Object, field string) (dates []string) {
	has := make(map[any]bool)
	for _, date := range in.List(field) {
		has[date] = true
	}
	for _, date := range of.List(field) {
		if !has[date] {
			dates = append(dates, printable(fmt.Sprint(date)))
		}
	}
	return dates
}
