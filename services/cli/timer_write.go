package cli

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/carillon-timer/carillon/services/cli/internal/client"
	"github.com/carillon-timer/carillon/services/cli/internal/manifest"
)

func sortedNames(o client.Object) []string { return slices.Sorted(maps.Keys(o)) }

// newTimer are the flags of `carillon timer create`.
type newTimer struct {
	file                               string
	specs, calendars, headers, labels  []string
	every, fixedDelay, delay, at, zone string
	url, method, body, kind, priority  string
	inactive, metrics                  bool
	attempts                           int
}

func (n *newTimer) addFlags(c *cobra.Command) {
	f := c.Flags()
	f.StringVarP(
		&n.file,
		"file",
		"f",
		"",
		"file with the definition instead of flags; - is standard input",
	)
	f.StringArrayVar(
		&n.specs,
		"cron",
		nil,
		`cron expression such as "0 9 * * MON-FRI"; several are allowed`,
	)
	f.StringVar(&n.every, "every", "", "interval such as 10m")
	f.StringVar(&n.fixedDelay, "fixed-delay", "", "duration from the end of a fire to the next")
	f.StringVar(
		&n.at,
		"at",
		"",
		"one instant such as 2030-01-31T09:00:00Z, or a duration from now such as 2h",
	)
	f.StringVar(&n.delay, "delay", "", "once, so long after the activation")
	f.StringVar(&n.zone, "tz", "", "IANA time zone of the cron expressions")
	f.StringSliceVar(&n.calendars, "calendar", nil, "calendar that must allow each instant")
	f.StringVar(&n.url, "url", "", "URL to call")
	f.StringVar(&n.kind, "kind", "", "kind of the target: http or grpc; http by default")
	f.StringVar(&n.method, "method", "", "HTTP method; POST by default")
	f.StringArrayVar(&n.headers, "header", nil, "header as NAME: VALUE")
	f.StringVar(&n.body, "body", "", "body to send; @FILE reads a file, of any bytes")
	f.StringSliceVarP(&n.labels, "label", "l", nil, "label as NAME=VALUE")
	f.StringVar(&n.priority, "priority", "", "high, normal or low")
	f.IntVar(&n.attempts, "attempts", 0, "attempts of each fire")
	f.BoolVar(&n.metrics, "metrics", false, "executors have metrics of this timer")
	f.BoolVar(&n.inactive, "inactive", false, "leave the new timer inactive")
}

func (t *tool) timerCreate() *cobra.Command {
	n := &newTimer{}
	c := &cobra.Command{
		Use:   "create NAME --url URL (--cron SPEC | --every D | --fixed-delay D | --at INSTANT | --delay D)",
		Short: "create a timer",
		Long: "The flags set the usual fields. A file sets all: jitter, waits between attempts, secret headers,\n" +
			"templates, concurrency, start_at, end_at and max_fires among them. Give it by -f.\n" +
			"carillon timer get NAME -o yaml prints a timer with all its fields: what only the service sets, such\n" +
			"as id and next_due, is left out of a file. carillon export prints files without it, and carillon\n" +
			"timer edit NAME changes every field in an editor.",
		Example: `  carillon timer create invoices --cron "0 9 * * MON-FRI" --tz Europe/Berlin --url https://example.com/hook
  carillon timer create reminder --delay 90s --url https://example.com/hook --body '{"order": 17}'
  carillon timer create -f timer.yaml --dry-run`,
		Args: usageArgs(cobra.MaximumNArgs(1)),
		RunE: func(c *cobra.Command, args []string) error {
			return t.withApp(func(api *client.Client, app url.Values) error {
				body, err := t.definition(c, n, args, app.Get("app"))
				if err != nil {
					return err
				}
				tm, created, err := api.Create(c.Context(), "/timers", body)
				if e, ok := errors.AsType[*client.Error](
					err,
				); ok &&
					e.Status == http.StatusConflict {
					return fmt.Errorf(
						"%w\nto change it: carillon timer edit %s, or carillon apply -f FILE",
						err,
						body.Text("name"),
					)
				}
				if err != nil {
					return err //nolint:wrapcheck // it says what the API answered
				}
				if !created && tm["dry_run"] != true {
					return t.showWritten(tm, "is there already, with this definition")
				}
				return t.showWritten(tm, "created")
			})
		},
	}
	n.addFlags(c)
	return t.withDryRun(c)
}

// definition returns the body of a create: of the file, or by the flags.
func (t *tool) definition(
	c *cobra.Command,
	n *newTimer,
	args []string,
	app string,
) (client.Object, error) {
	if n.file == "" {
		if len(args) == 0 {
			return nil, usageError("a new timer needs a name: carillon timer create NAME")
		}
		body, err := n.read(args[0], app)
		if err == nil && c.Flags().Changed("attempts") {
			body["retry"] = client.Object{"attempts": n.attempts}
		}
		return body, err
	}
	other, defines := len(args) > 0, &cobra.Command{}
	new(newTimer).addFlags(defines)
	defines.Flags().VisitAll(func(f *pflag.Flag) {
		other = other || f.Name != "file" && c.Flags().Changed(f.Name)
	})
	if other {
		return nil, usageError(
			"--file: the file has the whole definition: give no name and no other flags",
		)
	}
	all, err := t.readManifests(c.Context(), []string{n.file}, app)
	if err != nil {
		return nil, err
	}
	if len(all) != 1 || all[0].Kind != manifest.Timer {
		return nil, usageError(
			n.file + ": expected one timer; carillon apply takes several definitions",
		)
	}
	if err := t.otherApp(&all[0], ""); err != nil {
		return nil, usageError(err.Error())
	}
	return all[0].Body, nil
}

// read returns the definition that the flags describe. The API checks it.
func (n *newTimer) read(name, app string) (client.Object, error) {
	schedule, err := n.schedule()
	if err != nil {
		return nil, err
	}
	target := client.Object{"url": n.url}
	setIf(target, "kind", n.kind)
	setIf(target, "method", n.method)
	if n.url == "" {
		return nil, usageError("--url: expected the URL to call; other targets are given by --file")
	}
	if err := n.readBody(target); err != nil {
		return nil, err
	}
	headers := make(map[string][]string)
	if err := pairs(n.headers, ":", func(name, v string) error {
		for given := range headers {
			if strings.EqualFold(given, name) {
				name = given
			}
		}
		headers[name] = append(headers[name], v)
		return nil
	}); err != nil {
		return nil, usageError("--header: " + err.Error())
	}
	target["headers"] = headers
	out := client.Object{
		"app":      app,
		"name":     name,
		"schedule": schedule,
		"target":   target,
		"status":   "active",
	}
	if n.inactive {
		out["status"] = "inactive"
	}
	labels := make(map[string]string)
	if err := pairs(n.labels, "=", func(name, v string) error {
		if _, known := labels[name]; known {
			return labelTwice(name)
		}
		labels[name] = v
		return nil
	}); err != nil {
		return nil, usageError("--label: " + err.Error() + n.commaHint())
	}
	out["labels"] = labels
	setIf(out, "priority", n.priority)
	if n.metrics {
		out["metrics"] = true
	}
	return out, nil
}

// commaHint says how a label whose value has a comma is given, if there are several labels.
func (n *newTimer) commaHint() string {
	if len(n.labels) < 2 { //nolint:mnd // a comma makes two
		return ""
	}
	return `: a comma separates labels; quote one whose value has a comma: --label '"NAME=a, b"'`
}

// readBody sets the body of a target. The bytes of a file that are no UTF-8 go as base64, as a text
// of JSON would replace them.
func (n *newTimer) readBody(target client.Object) error {
	path, fromFile := strings.CutPrefix(n.body, "@")
	if !fromFile {
		if !utf8.ValidString(n.body) {
			return usageError("--body: expected UTF-8 text: give other bytes in a file, by @FILE")
		}
		setIf(target, "body", n.body)
		return nil
	}
	data, err := os.ReadFile(path)
	switch {
	case err != nil:
		return fmt.Errorf("--body: %w", err)
	case utf8.Valid(data):
		setIf(target, "body", string(data))
	default:
		target["body_base64"] = base64.StdEncoding.EncodeToString(data)
	}
	return nil
}

func (n *newTimer) schedule() (client.Object, error) {
	s, at := client.Object{}, n.at
	if at != "" {
		var err error
		if at, err = instant(at, time.Now()); err != nil {
			return nil, usageError("--at: " + err.Error())
		}
	}
	for kind, given := range map[string]client.Object{
		"cron":        {"specs": n.specs},
		"interval":    {"every": n.every},
		"fixed_delay": {"every": n.fixedDelay},
		"at":          {"at": at},
		"delay":       {"delay": n.delay},
	} {
		for field, v := range given {
			if list, ok := v.([]string); ok && len(list) == 0 || v == "" {
				continue
			}
			if s["kind"] != nil {
				return nil, usageError(
					"the flags give two schedules: give one of --cron, --every, --fixed-delay, --at and --delay",
				)
			}
			s["kind"], s[field] = kind, v
		}
	}
	if s["kind"] == nil {
		return nil, usageError("no schedule: give --cron, --every, --fixed-delay, --at or --delay")
	}
	setIf(s, "time_zone", n.zone)
	if len(n.calendars) > 0 {
		s["calendars"] = n.calendars
	}
	return s, nil
}

// setIf sets a field unless the text is empty.
func setIf(o client.Object, field, text string) {
	if text != "" {
		o[field] = text
	}
}

// pairs calls add with each of NAME<sep>VALUE texts.
func pairs(texts []string, sep string, add func(name, value string) error) error {
	for _, text := range texts {
		name, v, ok := strings.Cut(text, sep)
		if !ok || name == "" {
			return fmt.Errorf("expected NAME%sVALUE, found %q", sep, text)
		}
		if err := add(strings.TrimSpace(name), strings.TrimSpace(v)); err != nil {
			return err
		}
	}
	return nil
}

// showWritten shows a timer after a write or a dry run.
func (t *tool) showWritten(tm client.Object, done string) error {
	if !t.printer.Human() {
		return t.printer.One(tm)
	}
	dry := tm["dry_run"] == true
	if dry {
		done = "would be " + done
	}
	t.sayf("timer %s %s", tm.Text("name"), done)
	for _, w := range tm.Objects("warnings") {
		t.sayf("warning: %s", w.Text("message"))
	}
	switch {
	case dry:
		for _, at := range tm.List("upcoming") {
			t.sayf("  %s", localTime(fmt.Sprint(at)))
		}
	case tm.Text("next_due") != "":
		t.sayf("next due %s", localTime(tm.Text("next_due")))
	case tm.Text("status") != "active":
		t.sayf("it is %s", tm.Text("status"))
	}
	return nil
}

func (t *tool) timerEdit() *cobra.Command {
	var metrics bool
	c := &cobra.Command{
		Use:   "edit NAME|ID",
		Short: "change a timer in an editor (VISUAL, EDITOR or vi)",
		Long: "It opens the definition in an editor and changes what was edited. An edit by someone else\n" +
			"in the meantime is not overwritten: the command fails, and the file stays. With --metrics it\n" +
			"opens none, and changes only that.",
		Example: `  carillon timer edit invoices
  carillon timer edit invoices --metrics
  carillon timer edit invoices --metrics=false --dry-run`,
		Args:              usageArgs(cobra.ExactArgs(1)),
		ValidArgsFunction: t.completeTimers,
		RunE: func(c *cobra.Command, names []string) error {
			return t.eachTimer(
				c.Context(),
				names,
				func(api *client.Client, app url.Values, tm client.Object) error {
					if c.Flags().Changed("metrics") {
						return t.patch(
							c.Context(),
							api,
							app,
							tm,
							client.Object{"metrics": metrics},
							"changed",
						)
					}
					return t.edit(c.Context(), api, app, tm)
				},
			)
		},
	}
	c.Flags().BoolVar(&metrics, "metrics", false, "whether executors have metrics of this timer")
	return t.withDryRun(c)
}

// patch changes fields of a timer, unless it was changed since it was read.
func (t *tool) patch(
	ctx context.Context,
	api *client.Client,
	app url.Values,
	tm, change client.Object,
	done string,
) error {
	change["if_version"] = tm["version"]
	answer, err := api.Do(ctx, http.MethodPatch, "/timers/"+tm.Text("id"), app, change)
	if err != nil {
		return err //nolint:wrapcheck // it says what the API answered
	}
	return t.showWritten(answer, done)
}

func (t *tool) edit(
	ctx context.Context,
	api *client.Client,
	app url.Values,
	tm client.Object,
) error {
	was := manifest.Of(manifest.Timer, tm)
	text, err := was.YAML()
	if err != nil {
		return err //nolint:wrapcheck // it says what it was doing
	}
	path, failed := t.openEditor(ctx, text)
	if path == "" {
		return failed
	}
	keep := func(err error) error {
		return fmt.Errorf("%w\nthe edited file is kept: %s", err, path)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("reading the edited file: %w", err)
	}
	switch edited := !bytes.Equal(data, text); {
	case failed != nil && edited:
		return keep(failed)
	case failed != nil:
		return errors.Join(failed, os.Remove(path))
	case !edited:
		return t.unchanged(was.Name, path)
	}
	all, err := manifest.Parse(data, path, was.App)
	if err == nil && (len(all) != 1 || all[0].App != was.App || all[0].Name != was.Name) {
		err = usageError("expected the same app and name: a timer cannot be renamed")
	}
	if err != nil {
		return keep(err)
	}
	now := all[0].Body
	switch {
	case now["schedule"] == nil:
		return keep(usageError("schedule was removed: a timer needs it"))
	case now["target"] == nil && now["targets"] == nil:
		return keep(usageError("target was removed: a timer needs one"))
	}
	change := changed(was.Body, now)
	if len(change) == 0 {
		return t.unchanged(was.Name, path)
	}
	if err := t.patch(ctx, api, app, tm, change, "changed"); err != nil {
		return keep(err)
	}
	if t.dryRun {
		fmt.Fprintf(t.errOut, "the edited file is kept: %s\n", path)
		return nil
	}
	_ = os.Remove(path) // it lies among temporary files
	return nil
}

// unchanged ends an edit that changes nothing.
func (t *tool) unchanged(name, path string) error {
	t.sayf("timer %s unchanged", name)
	return os.Remove(path) //nolint:wrapcheck // it names the file
}

// changed returns the fields of a definition that differ. A field that was removed gets its
// default; the status and the mode stay as they are, as with a PATCH.
func changed(was, now client.Object) client.Object {
	out := client.Object{}
	for name, v := range now {
		if name != "app" && name != "name" && !same(was[name], v) {
			out[name] = v
		}
	}
	for name, empty := range map[string]any{
		"labels": client.Object{}, "retry": client.Object{}, "misfire": client.Object{},
		"concurrency": client.Object{}, "priority": "normal", "metrics": false,
	} {
		if was[name] != nil && now[name] == nil {
			out[name] = empty
		}
	}
	return out
}

func same(a, b any) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

// openEditor writes a text to a file, opens an editor, and returns the file's path, also if the
// editor fails.
func (t *tool) openEditor(ctx context.Context, text []byte) (string, error) {
	f, err := os.CreateTemp("", "carillon-*.yaml")
	if err == nil {
		_, err = f.Write(text)
		if closed := f.Close(); err == nil {
			err = closed
		}
	}
	if err != nil {
		return "", fmt.Errorf("writing the file to edit: %w", err)
	}
	editor := t.or("", "VISUAL")
	if editor == "" {
		editor = t.or("", "EDITOR")
	}
	if editor == "" {
		editor = "vi"
	}
	words := strings.Fields(editor)
	if len(words) == 0 {
		return "", usageError("VISUAL and EDITOR: expected a program, found only spaces")
	}
	//nolint:gosec // the user's own editor
	cmd := exec.CommandContext(ctx, words[0], append(words[1:], f.Name())...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = t.in, t.out, t.errOut
	cmd.WaitDelay = time.Second
	if err := cmd.Run(); err != nil {
		return f.Name(), fmt.Errorf("the editor %s: %w: set VISUAL or EDITOR", editor, err)
	}
	return f.Name(), nil
}
