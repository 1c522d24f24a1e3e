package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/fatih/color"
	"github.com/spf13/cobra"

	"github.com/carillon-timer/carillon/services/cli/internal/client"
	"github.com/carillon-timer/carillon/services/cli/internal/manifest"
)

// apply are the flags of `carillon apply` and `carillon diff`.
type apply struct {
	files         []string
	prune, dryRun bool
	yes           bool
	each          func(c change) error
}

// change is what an apply does to one definition.
type change struct {
	kind, app, name string
	verb            string // created, changed, unchanged or deleted
	diff            string
}

func (t *tool) applyCommand() *cobra.Command {
	a := &apply{}
	c := &cobra.Command{
		Use:   "apply -f FILE|FOLDER...",
		Short: "create and change timers and calendars so that they are as in files",
		Long: "It creates what does not exist and changes what differs. A document is a timer as the API\n" +
			"takes it, or a calendar where it says kind: calendar. It is not one transaction: what was\n" +
			"applied before an error stays, and a repetition goes on.",
		Example: `  carillon export --app shop > shop.yaml
  carillon apply -f shop.yaml --dry-run
  carillon apply -f timers/ --prune`,
		Args: usageArgs(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error { return t.apply(c.Context(), a) },
	}
	a.addFlags(c)
	c.Flags().BoolVar(&a.dryRun, "dry-run", false, "change nothing; show the differences")
	c.Flags().BoolVar(&a.yes, "yes", false, "with --prune: delete without asking")
	return c
}

// errDifferent makes `carillon diff` fail where there are differences, as diff does.
var errDifferent = errors.New("the definitions differ")

func (t *tool) diffCommand() *cobra.Command {
	a := &apply{dryRun: true}
	c := &cobra.Command{
		Use:   "diff -f FILE|FOLDER...",
		Short: "show what apply would change; fails where anything differs",
		Args:  usageArgs(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			different := false
			a.each = func(done change) error {
				different = different || done.verb != "unchanged"
				return nil
			}
			if err := t.apply(c.Context(), a); err != nil || !different {
				return err
			}
			return errDifferent
		},
	}
	a.addFlags(c)
	return c
}

func (a *apply) addFlags(c *cobra.Command) {
	c.Flags().StringSliceVarP(&a.files, "file", "f", nil, "files, folders, or - for standard input")
	c.Flags().
		BoolVar(&a.prune, "prune", false, "delete the timers of the files' apps that are in no file")
	if err := c.MarkFlagFilename("file", "yaml", "yml", "json", "ndjson"); err != nil {
		panic(err) // the flag was added above
	}
}

func (t *tool) apply(ctx context.Context, a *apply) error {
	if len(a.files) == 0 {
		return usageError("--file: expected the files to apply, for example -f timers/")
	}
	all, err := manifest.Read(a.files, t.in, t.target.App)
	if err != nil {
		return usageError(err.Error())
	}
	if len(all) == 0 {
		return usageError("--file: there is no definition in " + strings.Join(a.files, ", "))
	}
	return t.withClient(func(api *client.Client) error {
		made := make(map[string]bool)
		for i := range all {
			done, err := t.applyOne(ctx, api, &all[i], a.dryRun, made)
			if err != nil {
				return fmt.Errorf(
					"%s %s/%s (%s): %w",
					all[i].Kind,
					all[i].App,
					all[i].Name,
					all[i].Source,
					err,
				)
			}
			if err := t.report(a, done); err != nil {
				return err
			}
		}
		if a.prune {
			return t.prune(ctx, api, a, all)
		}
		return nil
	})
}

// report prints a change.
func (t *tool) report(a *apply, done change) error {
	if a.each != nil {
		if err := a.each(done); err != nil {
			return err
		}
	}
	if !t.printer.Human() {
		return t.printer.One(client.Object{
			"kind": done.kind, "app": done.app, "name": done.name, "result": done.verb,
			"dry_run": a.dryRun, "diff": done.diff,
		})
	}
	if a.dryRun {
		for line := range strings.Lines(done.diff) {
			fmt.Fprint(t.out, t.paintDiff(line))
		}
	}
	verb := done.verb
	if a.dryRun && verb != "unchanged" {
		verb = "would be " + verb
	}
	t.sayf("%s %s/%s %s", done.kind, done.app, done.name, verb)
	return nil
}

func (t *tool) paintDiff(line string) string {
	switch {
	case strings.HasPrefix(line, "+"):
		return t.paint(line, color.FgGreen)
	case strings.HasPrefix(line, "-"):
		return t.paint(line, color.FgRed)
	case strings.HasPrefix(line, "@"):
		return t.paint(line, color.FgCyan)
	default:
		return line
	}
}

// applyOne applies a definition. In made it notes the calendars that a dry run did not create. What it reports was read just before the write: another caller's
// change between the two is overwritten, as by any apply, and not part of the difference.
func (t *tool) applyOne(
	ctx context.Context,
	api *client.Client,
	m *manifest.Manifest,
	dryRun bool,
	made map[string]bool,
) (change, error) {
	done := change{kind: string(m.Kind), app: m.App, name: m.Name}
	was, err := current(ctx, api, m)
	if err != nil {
		return done, err
	}
	var now client.Object
	if m.Kind == manifest.Calendar {
		now, err = t.applyCalendar(ctx, api, m, was, dryRun)
		made[m.App+"/"+m.Name] = dryRun && was == nil
	} else {
		now, err = applyTimer(ctx, api, m, dryRun, made)
	}
	if err != nil {
		return done, err //nolint:wrapcheck // it says what the API answered
	}
	before, after := (*manifest.Manifest)(nil), manifest.Of(m.Kind, now)
	done.verb = "created"
	if was != nil {
		m := manifest.Of(m.Kind, was)
		before, done.verb = &m, "changed"
	}
	if done.diff, err = manifest.Diff(before, &after); err != nil {
		return done, err //nolint:wrapcheck // it says what it was doing
	}
	// A secret that was given again is another version, though nobody can see a difference.
	if was != nil && done.diff == "" && was.Text("version") == now.Text("version") {
		done.verb = "unchanged"
	}
	return done, nil
}

// applyTimer creates a timer, or gives it the definition.
func applyTimer(
	ctx context.Context,
	api *client.Client,
	m *manifest.Manifest,
	dryRun bool,
	made map[string]bool,
) (client.Object, error) {
	schedule := m.Body.Object("schedule")
	missing := slices.ContainsFunc(schedule.List("calendars"), func(name any) bool {
		return made[m.App+"/"+fmt.Sprint(name)]
	})
	if !dryRun || !missing {
		q := url.Values{}
		if dryRun {
			q.Set("dry_run", "true")
		}
		return api.Do(
			ctx,
			http.MethodPut,
			"/timers",
			q,
			m.Body,
		) //nolint:wrapcheck // it says what the API answered
	}
	// The API knows no calendar that a dry run did not create: it checks the rest.
	body, without := maps.Clone(m.Body), maps.Clone(schedule)
	delete(without, "calendars")
	delete(without, "excluded")
	body["schedule"] = map[string]any(without)
	now, err := api.Do(ctx, http.MethodPut, "/timers", url.Values{"dry_run": {"true"}}, body)
	if shown := now.Object("schedule"); err == nil && shown != nil {
		shown["calendars"] = schedule["calendars"]
		if excluded := schedule["excluded"]; excluded != nil {
			shown["excluded"] = excluded
		}
	}
	return now, err //nolint:wrapcheck // it says what the API answered
}

// applyCalendar replaces a calendar that differs. An equal one is left alone, because each
// replacement makes a version and plans the timers of the calendar again.
func (t *tool) applyCalendar(
	ctx context.Context,
	api *client.Client,
	m *manifest.Manifest,
	was client.Object,
	dryRun bool,
) (client.Object, error) {
	now := client.Object{"app": m.App, "name": m.Name, "version": was["version"]}
	maps.Copy(now, m.Body)
	if was != nil && same(manifest.Of(m.Kind, was).Body, m.Body) {
		return was, nil
	}
	if dryRun {
		return now, nil
	}
	path := "/calendars/" + url.PathEscape(m.Name)
	return api.Do(
		ctx,
		http.MethodPut,
		path,
		url.Values{"app": {m.App}},
		m.Body,
	) //nolint:wrapcheck // it says what the API answered
}

// current returns the present definition, or nil.
//
//nolint:nilnil // there is none yet
func current(ctx context.Context, api *client.Client, m *manifest.Manifest) (client.Object, error) {
	app := url.Values{"app": {m.App}}
	if m.Kind == manifest.Calendar {
		c, err := api.Get(ctx, "/calendars/"+url.PathEscape(m.Name), app)
		if client.NotFound(err) {
			return nil, nil
		}
		return c, err //nolint:wrapcheck // it says what the API answered
	}
	app.Set("name", m.Name)
	page, err := api.Get(ctx, "/timers", app)
	if err != nil {
		return nil, err //nolint:wrapcheck // it says what the API answered
	}
	if items := page.Objects("items"); len(items) > 0 {
		return items[0], nil
	}
	return nil, nil
}

// prune deletes the timers of the files' apps that are in no file. Calendars stay.
func (t *tool) prune(
	ctx context.Context,
	api *client.Client,
	a *apply,
	all []manifest.Manifest,
) error {
	kept := make(map[[2]string]bool)
	var apps []string
	for i := range all {
		if all[i].Kind == manifest.Timer {
			kept[[2]string{all[i].App, all[i].Name}] = true
			apps = append(apps, all[i].App)
		}
	}
	slices.Sort(apps)
	var doomed []client.Object
	for _, app := range slices.Compact(apps) {
		err := api.Pages(
			ctx,
			"/timers",
			url.Values{"app": {app}},
			0,
			func(items []client.Object) error {
				for _, tm := range items {
					if !kept[[2]string{app, tm.Text("name")}] {
						doomed = append(doomed, tm)
					}
				}
				return nil
			},
		)
		if err != nil {
			return err //nolint:wrapcheck // it says what the API answered
		}
	}
	if len(doomed) == 0 {
		return nil
	}
	if !a.dryRun {
		question := fmt.Sprintf("Delete %d timers that are in no file, such as %s/%s?",
			len(doomed), doomed[0].Text("app"), doomed[0].Text("name"))
		if err := t.confirm(a.yes, question); err != nil {
			return err
		}
	}
	for _, tm := range doomed {
		was := manifest.Of(manifest.Timer, tm)
		done := change{kind: string(manifest.Timer), app: was.App, name: was.Name, verb: "deleted"}
		var err error
		if done.diff, err = manifest.Diff(&was, nil); err != nil {
			return err //nolint:wrapcheck // it says what it was doing
		}
		if !a.dryRun {
			_, err = api.Do(
				ctx,
				http.MethodDelete,
				"/timers/"+tm.Text("id"),
				url.Values{"app": {was.App}},
				nil,
			)
			if err != nil && !client.NotFound(err) {
				return fmt.Errorf("timer %s/%s: %w", was.App, was.Name, err)
			}
		}
		if err := t.report(a, done); err != nil {
			return err
		}
	}
	return nil
}

func (t *tool) exportCommand() *cobra.Command {
	var ndjson bool
	c := &cobra.Command{
		Use:   "export",
		Short: "print all calendars and timers of an app as files for apply",
		Long: "It prints YAML documents. Secrets are not shown: REDACTED in their place keeps those that the\n" +
			"service has. The export of an app that changes meanwhile is not of one instant.",
		Args: usageArgs(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			return t.withApp(func(api *client.Client, app url.Values) error {
				for _, k := range []struct {
					kind manifest.Kind
					path string
				}{{manifest.Calendar, "/calendars"}, {manifest.Timer, "/timers"}} {
					err := api.Pages(
						c.Context(),
						k.path,
						app,
						0,
						func(items []client.Object) error {
							return t.export(k.kind, items, ndjson)
						},
					)
					if err != nil {
						return err //nolint:wrapcheck // it says what the API answered
					}
				}
				return nil
			})
		},
	}
	c.Flags().BoolVar(&ndjson, "ndjson", false, "print a line of JSON for each")
	return c
}

func (t *tool) export(kind manifest.Kind, items []client.Object, ndjson bool) error {
	for _, item := range items {
		m := manifest.Of(kind, item)
		data, err := m.YAML()
		if ndjson {
			data, err = m.JSON()
		} else if err == nil {
			data = append([]byte("---\n"), data...)
		}
		if err != nil {
			return err //nolint:wrapcheck // it says what it was doing
		}
		if _, err := t.out.Write(data); err != nil {
			return err //nolint:wrapcheck // of the output
		}
	}
	return nil
}
