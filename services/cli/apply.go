package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/fatih/color"
	"github.com/spf13/cobra"

	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/cli/internal/client"
	"github.com/carillon-timer/carillon/services/cli/internal/manifest"
	"github.com/carillon-timer/carillon/services/cli/internal/progress"
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
	verb            string // one of the verbs below
	diff            string
	note            string // what an apply leaves alone, empty if there is nothing
	// warnings are those of the API, about what the timer will not do as one may expect.
	warnings []client.Object
	// removed says which dates a calendar loses. They may have been imported.
	removed []string
}

// removedDates says which dates of a calendar are in no file. An import may have put them there, and
// an apply replaces all of the calendar.
func removedDates(was, now client.Object, dryRun bool) (said []string) {
	const most = 3
	for _, field := range []string{"excluded", "included"} {
		dates := missingDates(was, now, field+"_dates")
		if len(dates) == 0 {
			continue
		}
		what, done := "1 "+field+" date that it had is", "was"
		if len(dates) > 1 {
			what, done = fmt.Sprintf("%d %s dates that it had are", len(dates), field), "were"
		}
		if dryRun {
			done = "would be"
		}
		named := strings.Join(dates[:min(most, len(dates))], ", ")
		if len(dates) > most {
			named += ", …"
		}
		said = append(
			said, fmt.Sprintf("%s not in the file and %s removed (%s)", what, done, named))
	}
	return said
}

// pauseNote says that an apply leaves a pause alone: operators pause on purpose, and the same files
// are applied again and again. was is the timer before it, or nil.
func pauseNote(m *manifest.Manifest, was client.Object) string {
	if m.Kind != manifest.Timer || m.Body.Text("status") != string(timer.StatusActive) ||
		was.Text("status") != string(timer.StatusPaused) {
		return ""
	}
	return "it stays paused: carillon timer resume " + m.Name + " --app " + m.App +
		" ends the pause"
}

// inactiveNote says that a new timer whose document has no status is inactive.
func inactiveNote(m *manifest.Manifest, verb string) string {
	if m.Kind != manifest.Timer || verb != verbCreated || m.Body.Text("status") != "" {
		return ""
	}
	return "it is inactive, as its document has no status: give it status: active to activate it"
}

// What an apply does to a definition.
const (
	verbCreated   = "created" // as the results of a batch have it
	verbChanged   = "changed"
	verbUnchanged = "unchanged"
	verbDeleted   = "deleted"
)

func (t *tool) applyCommand() *cobra.Command {
	a := &apply{}
	c := &cobra.Command{
		Use:   "apply -f FILE|FOLDER...",
		Short: "create and change timers and calendars so that they are as in files",
		Long: "It creates what does not exist and changes what differs. A document is a timer as the API\n" +
			"takes it, or a calendar where it says kind: calendar. It is not one transaction: what was\n" +
			"applied before an error stays, and a repetition goes on. A refused calendar ends it. Beside a\n" +
			"refused timer, the others of the same request (up to 500) are applied before it ends. Then the\n" +
			"exit code is 1, and --prune deletes nothing.\n\n" +
			"A paused timer stays paused, with a note, where its document says status: active.\n" +
			"carillon timer resume ends the pause. A new timer whose document has no status is inactive, with\n" +
			"a note.\n\n" +
			"A document without an app is for the app of --app, " + appVariable + " or the context.\n" +
			"With --app, a document of another app is refused, and nothing is applied.",
		Example: `  carillon export --app shop > shop.yaml
  carillon apply -f shop.yaml --dry-run
  carillon apply -f timers/ --prune
  carillon export --app shop --without-app > any.yaml
  carillon apply -f any.yaml --app shop2`,
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
		Long: "With --app, a document of another app is refused, as by apply. A paused timer does not differ\n" +
			"from status: active, as apply leaves the pause alone: a note says so.",
		Args: usageArgs(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			different := false
			a.each = func(done change) error {
				different = different || done.verb != verbUnchanged
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
		BoolVar(&a.prune, "prune", false, "delete the timers that are in no file, of apps of which the files have timers")
	if err := c.MarkFlagFilename("file", "yaml", "yml", "json", "ndjson"); err != nil {
		panic(err) // the flag was added above
	}
}

func (t *tool) apply(ctx context.Context, a *apply) error {
	if len(a.files) == 0 {
		return usageError("--file: expected the files to apply, for example -f timers/")
	}
	if a.prune && !a.yes && !a.dryRun && !isTerminal(t.in) { // before anything is changed
		return usageError("--prune deletes timers, and there is no terminal to ask on: " +
			"look at them by --dry-run, and confirm by --yes")
	}
	all, err := t.readManifests(ctx, a.files, t.target.App)
	if err != nil {
		return err
	}
	if len(all) == 0 {
		return usageError("--file: there is no definition in " + strings.Join(a.files, ", "))
	}
	others := make([]error, len(all))
	for i := range all {
		others[i] = t.otherApp(
			&all[i],
			"; carillon export --without-app leaves it out of an export, "+
				"and carillon import takes the app of crontabs and others by --app",
		)
	}
	if err := errors.Join(others...); err != nil {
		return usageError(err.Error())
	}
	return t.withClient(func(api *client.Client) error {
		bar := progress.New(t.errOut, "applying", int64(len(all)))
		defer bar.Done()
		if err := t.applyAll(ctx, api, a, all, bar); err != nil {
			bar.Done()
			if a.prune {
				t.sayUnpruned(a.dryRun)
			}
			return err
		}
		bar.Done()
		if a.prune {
			return t.prune(ctx, api, a, all)
		}
		return nil
	})
}

// otherApp returns an error for a definition of another app than that of the flag --app, as the API
// refuses documents of another app than that of an import. The app of a variable or of the context
// is only that of documents which name none: a folder may have the definitions of several apps.
func (t *tool) otherApp(m *manifest.Manifest, hint string) error {
	if t.app == "" || m.App == t.app {
		return nil
	}
	return fmt.Errorf(
		"%s: app: expected %q, as --app says, found %q: leave one of them out%s",
		m.Source, t.app, m.App, hint,
	)
}

// applyAll applies definitions in their order: calendars one by one, and timers in batches. A
// refused calendar ends it. Of timers it applies the others of the batch before it ends.
func (t *tool) applyAll(
	ctx context.Context,
	api *client.Client,
	a *apply,
	all []manifest.Manifest,
	bar *progress.Bar,
) error {
	made := make(map[string]bool)
	var timers []*manifest.Manifest
	for i := range all {
		m := &all[i]
		if m.Kind == manifest.Timer {
			timers = append(timers, m)
			continue
		}
		done, err := t.applyOne(ctx, api, m, a.dryRun, made)
		if err := t.reportAll(a, bar, []*manifest.Manifest{m}, []applied{{done, err}}); err != nil {
			return err
		}
	}
	report := func(batch []*manifest.Manifest, done []applied) error {
		return t.reportAll(a, bar, batch, done)
	}
	if a.dryRun {
		return t.tryTimers(ctx, api, timers, made, report)
	}
	return t.applyTimers(ctx, api, timers, report)
}

// tryTimers is applyTimers as a dry run, which has no batch.
func (t *tool) tryTimers(
	ctx context.Context,
	api *client.Client,
	timers []*manifest.Manifest,
	made map[string]bool,
	each func([]*manifest.Manifest, []applied) error,
) error {
	for batch := range slices.Chunk(timers, applyConcurrency) {
		done := make([]applied, len(batch))
		var wg sync.WaitGroup
		for i, m := range batch {
			wg.Go(func() { done[i].change, done[i].err = t.applyOne(ctx, api, m, true, made) })
		}
		wg.Wait()
		if err := each(batch, done); err != nil {
			return err
		}
	}
	return nil
}

// reportAll prints changes above the bar. It fails if a definition was refused, after it has printed
// the others.
func (t *tool) reportAll(
	a *apply,
	bar *progress.Bar,
	batch []*manifest.Manifest,
	done []applied,
) error {
	var refused []error
	err := bar.Above(func() error {
		for i, m := range batch {
			if err := done[i].err; err != nil {
				refused = append(
					refused,
					fmt.Errorf("%s %s/%s (%s): %w", m.Kind, m.App, m.Name, m.Source, err),
				)
				continue
			}
			if err := t.report(a, done[i].change); err != nil {
				return err
			}
		}
		return nil
	})
	bar.Add(int64(len(batch)))
	if err == nil {
		err = errors.Join(refused...)
	}
	return err
}

// report prints a change.
func (t *tool) report(a *apply, done change) error {
	if a.each != nil {
		if err := a.each(done); err != nil {
			return err
		}
	}
	for _, text := range done.removed { // beside the results, which programs read
		fmt.Fprintf(t.errOut, "%s %s/%s: %s\n", done.kind, done.app, done.name, text)
	}
	if !t.printer.Human() {
		return t.printer.One(client.Object{
			"kind": done.kind, "app": done.app, "name": done.name, "result": done.verb,
			"dry_run": a.dryRun, "diff": done.diff, "note": done.note,
			"warnings": append([]client.Object{}, done.warnings...),
		})
	}
	if a.dryRun {
		for line := range strings.Lines(done.diff) {
			fmt.Fprint(t.out, t.paintDiff(line))
		}
	}
	verb := done.verb
	if a.dryRun && verb != verbUnchanged {
		verb = "would be " + verb
	}
	t.sayf("%s %s/%s %s", done.kind, done.app, done.name, verb)
	if done.note != "" {
		t.sayf("%s %s/%s: note: %s", done.kind, done.app, done.name, printable(done.note))
	}
	for _, w := range done.warnings {
		t.sayf("%s %s/%s: warning: %s", done.kind, done.app, done.name, w.Text("message"))
	}
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

// applyOne applies a calendar, or tries a timer. In made it notes the calendars that a dry run did
// not create. What it reports was read just before the write: another caller's change between the
// two is overwritten, as by any apply, and not part of the difference.
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
		now, err = putCalendar(ctx, api, m, dryRun)
		made[m.App+"/"+m.Name] = dryRun && was == nil
		if err == nil {
			done.removed = removedDates(was, now, dryRun)
		}
	} else {
		now, err = tryTimer(ctx, api, m, made)
	}
	if err != nil {
		return done, err //nolint:wrapcheck // it says what the API answered
	}
	done.note = pauseNote(m, was)
	done.warnings = now.Objects("warnings")
	if done.diff, err = difference(m.Kind, was, now); err != nil {
		return done, err
	}
	switch {
	case was == nil:
		done.verb = verbCreated
	case done.diff == "" && was.Text("version") == now.Text("version"):
		done.verb = verbUnchanged
	default:
		done.verb = verbChanged
	}
	done.note = cmp.Or(done.note, inactiveNote(m, done.verb))
	return done, nil
}

// difference returns the difference of two answers of the API as a unified diff. A nil was is no
// definition.
func difference(kind manifest.Kind, was, now client.Object) (string, error) {
	before, after := (*manifest.Manifest)(nil), manifest.Of(kind, now)
	if was != nil {
		m := manifest.Of(kind, was)
		before = &m
	}
	return manifest.Diff(before, &after) //nolint:wrapcheck // it says what it was doing
}

// tryTimer returns the timer as it would be.
func tryTimer(
	ctx context.Context,
	api *client.Client,
	m *manifest.Manifest,
	made map[string]bool,
) (client.Object, error) {
	schedule := m.Body.Object("schedule")
	dryRun := url.Values{"dry_run": {"true"}}
	missing := slices.ContainsFunc(schedule.List("calendars"), func(name any) bool {
		return made[m.App+"/"+fmt.Sprint(name)]
	})
	if !missing {
		//nolint:wrapcheck // it says what the API answered
		return api.Do(ctx, http.MethodPut, "/timers", dryRun, m.Body)
	}
	// The API knows no calendar that a dry run did not create: it checks the rest.
	body, without := maps.Clone(m.Body), maps.Clone(schedule)
	delete(without, "calendars")
	delete(without, "excluded")
	body["schedule"] = map[string]any(without)
	now, err := api.Do(ctx, http.MethodPut, "/timers", dryRun, body)
	if shown := now.Object("schedule"); err == nil && shown != nil {
		shown["calendars"] = schedule["calendars"]
		if excluded := schedule["excluded"]; excluded != nil {
			shown["excluded"] = excluded
		}
	}
	return now, err //nolint:wrapcheck // it says what the API answered
}

// putCalendar writes a calendar, or returns what it would be. The API changes nothing if the content is
// the same.
func putCalendar(
	ctx context.Context,
	api *client.Client,
	m *manifest.Manifest,
	dryRun bool,
) (client.Object, error) {
	q := url.Values{"app": {m.App}}
	if dryRun {
		q.Set("dry_run", "true")
	}
	//nolint:wrapcheck // it says what the API answered
	return api.Do(ctx, http.MethodPut, "/calendars/"+url.PathEscape(m.Name), q, m.Body)
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
