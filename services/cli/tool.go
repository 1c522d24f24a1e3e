package cli

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"

	"github.com/fatih/color"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/carillon-timer/carillon/libs/config"
	"github.com/carillon-timer/carillon/libs/options"
	"github.com/carillon-timer/carillon/libs/process"
	"github.com/carillon-timer/carillon/services/cli/internal/client"
	"github.com/carillon-timer/carillon/services/cli/internal/contexts"
	"github.com/carillon-timer/carillon/services/cli/internal/output"
)

// Variables of the environment for commands that call the API. A flag wins over its variable, and
// the variable over the context.
const (
	apiVariable      = config.EnvPrefix + "API"
	appVariable      = config.EnvPrefix + "APP"
	contextVariable  = config.EnvPrefix + "CONTEXT"
	contextsVariable = config.EnvPrefix + "CONTEXTS_FILE"

	defaultAPI = "http://127.0.0.1:8080"
)

// maxIdleConnections is how many connections are kept for commands that send many requests at once.
const maxIdleConnections = 64

// tool is what the commands that call the API share: where it is, for which app, and how they
// print. prepare fills it in before a command runs.
type tool struct {
	env         process.Env
	in          io.Reader
	out, errOut io.Writer

	api, app, context, contextsFile string
	credentials                     credentials
	format                          string
	dryRun                          bool   // of a command with --dry-run
	idempotencyKey                  string // of a command withKey; see key
	resolved                        string // flags with what relative instants stood for

	target  contexts.Context // the context, with flags and environment applied
	printer *output.Printer
}

func (t *tool) addFlags(root *cobra.Command) {
	f := root.PersistentFlags()
	f.StringVar(
		&t.api,
		"api",
		"",
		"address of the API; or "+apiVariable+", or the context's; "+defaultAPI+" by default",
	)
	f.StringVarP(&t.app, "app", "a", "", "app of the timers; or "+appVariable+", or the context's")
	f.StringVar(
		&t.credentials.file,
		"key-file",
		"",
		"file with the API key; or the context's; or the key itself in "+keyVariable,
	)
	f.StringVar(
		&t.context,
		"context",
		"",
		"context to use; or "+contextVariable+"; the current one by default",
	)
	f.StringVar(&t.contextsFile, "contexts-file", "", "file of the contexts; or "+contextsVariable)
	f.StringVarP(&t.format, "output", "o", "", "format: "+output.Formats)
	complete := func(values ...string) cobra.CompletionFunc {
		return cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)
	}
	for name, done := range map[string]cobra.CompletionFunc{
		"output":  complete("table", "wide", "name", "json", "yaml", "jsonpath="),
		"context": t.completeContexts,
		"api":     complete(),
		"app":     complete(),
	} {
		if err := root.RegisterFlagCompletionFunc(name, done); err != nil {
			panic(err) // the flag was added above
		}
	}
}

// withoutContext is a PersistentPreRunE of commands that need no API: a context that is wrong must
// not stop them, as it does others.
func (t *tool) withoutContext(*cobra.Command, []string) error {
	var err error
	if t.printer, err = output.New(t.format, t.out); err != nil {
		return usageError(err.Error())
	}
	return nil
}

// prepare reads the context and the format.
func (t *tool) prepare() error {
	if err := t.withoutContext(nil, nil); err != nil {
		return err
	}
	f, err := t.loadContexts()
	if err != nil {
		return err
	}
	if t.target, err = f.Find(t.or(t.context, contextVariable)); err != nil {
		return usageError(err.Error())
	}
	if t.context != "" { // a flag wins over variables, also this one over those of what it names
		env := t.env
		t.env = func(name string) (string, bool) {
			if name == apiVariable || name == keyVariable ||
				name == appVariable && t.target.App != "" {
				return "", false
			}
			return env(name)
		}
	}
	options.Default(&t.target.API, defaultAPI)
	if api := t.or(t.api, apiVariable); api != "" {
		if client.Address(api) != client.Address(t.target.API) {
			// No other address gets the key of the context, nor is it known by its certificates.
			if t.target.KeyFile != "" {
				t.credentials.keptFor = t.target.API
			}
			t.target.KeyFile, t.target.CAFile = "", ""
		}
		t.target.API = api
	}
	if app := t.or(t.app, appVariable); app != "" {
		t.target.App = app
	}
	return checkAPI(t.target.API)
}

// checkAPI checks the address of an API.
func checkAPI(address string) error {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return usageError(
			fmt.Sprintf("--api: expected http://HOST:PORT or https://HOST, found %q", address),
		)
	}
	return nil
}

// or returns the value of a flag, or of its variable.
func (t *tool) or(flag, variable string) string {
	if flag == "" {
		flag, _ = t.env(variable)
	}
	return flag
}

func (t *tool) loadContexts() (*contexts.File, error) {
	path, err := t.contextsPath()
	if err != nil {
		return &contexts.File{}, nil //nolint:nilerr // without a home there are no contexts
	}
	return contexts.Load(path) //nolint:wrapcheck // it names the file
}

func (t *tool) contextsPath() (string, error) {
	if path := t.or(t.contextsFile, contextsVariable); path != "" {
		return path, nil
	}
	path, err := contexts.DefaultPath()
	if err != nil {
		return "", usageError(
			err.Error() + ": give it by --contexts-file, or set " + contextsVariable)
	}
	return path, nil
}

// needApp returns the app, which most commands need.
func (t *tool) needApp() (string, error) {
	if t.target.App == "" {
		return "", usageError(
			"no app: give --app, set " + appVariable + ", or set one for the context: " +
				"carillon context set NAME --app APP",
		)
	}
	return t.target.App, nil
}

// withClient calls do with a client of the API. It adds a hint to an error that has a known remedy.
func (t *tool) withClient(do func(*client.Client) error) error {
	if t.credentials.file == "" {
		if key, _ := t.env(keyVariable); key == "" {
			t.credentials.file = t.target.KeyFile
		}
	}
	if err := t.credentials.read(t.env); err != nil {
		return err
	}
	transport, err := t.transport()
	if err != nil {
		return err
	}
	c := client.New(t.target.API, t.credentials.key, transport)
	c.DryRun = t.dryRun
	defer c.Close()
	err = do(c)
	if e, ok := errors.AsType[*client.Error](err); ok {
		if hint := t.credentials.hint(e, t.target.App); hint != nil {
			return fmt.Errorf("%w\n%w", err, hint)
		}
	}
	return err
}

// withApp is withClient for commands that need an app. The query names it.
func (t *tool) withApp(do func(c *client.Client, app url.Values) error) error {
	app, err := t.needApp()
	if err != nil {
		return err
	}
	return t.withClient(func(c *client.Client) error { return do(c, url.Values{"app": {app}}) })
}

func (t *tool) transport() (*http.Transport, error) {
	transport := &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		ForceAttemptHTTP2:   true,
		MaxIdleConnsPerHost: maxIdleConnections,
	}
	if t.target.CAFile == "" {
		return transport, nil
	}
	pem, err := os.ReadFile(t.target.CAFile)
	if err != nil {
		return nil, usageError("ca-file of the context: " + err.Error())
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, usageError(fmt.Sprintf(
			"ca-file of the context: %s has no certificate in PEM: "+
				"carillon context set NAME --ca-file FILE corrects it", t.target.CAFile))
	}
	transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	return transport, nil
}

// isID matches the ids of timers.
var isID = regexp.MustCompile(`^[0-9]{1,16}$`)

// findTimer returns the timer of an id, or else of a name, as the API does.
func findTimer(
	ctx context.Context,
	c *client.Client,
	app url.Values,
	name string,
) (client.Object, error) {
	if isID.MatchString(name) {
		tm, err := c.Get(ctx, "/timers/"+name, app)
		if err == nil || !client.NotFound(err) {
			return tm, err //nolint:wrapcheck // it says what the API answered
		}
	}
	q := url.Values{"app": app["app"], "name": {name}}
	page, err := c.Get(ctx, "/timers", q)
	if err != nil {
		return nil, err //nolint:wrapcheck // it says what the API answered
	}
	if items := page.Objects("items"); len(items) == 1 && items[0].Text("name") == name {
		return items[0], nil
	}
	return nil, fmt.Errorf(
		"app %q has no timer %q: carillon timer list shows those that it has",
		app.Get("app"),
		name,
	)
}

// completeTimers completes the names of timers from the API, at most a thousand that begin as typed.
func (t *tool) completeTimers(
	c *cobra.Command,
	_ []string,
	typed string,
) ([]string, cobra.ShellCompDirective) {
	const most = 1000
	var names []string
	err := t.prepare()
	if err == nil {
		err = t.withApp(func(api *client.Client, app url.Values) error {
			if typed != "" {
				app.Set("name_prefix", typed)
			}
			timers, err := api.All(c.Context(), "/timers", app, most)
			for _, tm := range timers {
				if name := tm.Text("name"); strings.HasPrefix(name, typed) {
					names = append(names, name)
				}
			}
			return err //nolint:wrapcheck // nobody sees it
		})
	}
	if err != nil {
		cobra.CompDebugln(err.Error(), false)
		return nil, cobra.ShellCompDirectiveError | cobra.ShellCompDirectiveNoFileComp
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// isTerminal reports whether a stream is a terminal.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// paint returns the text in a color, if the output is a terminal and NO_COLOR is not set.
func (t *tool) paint(text string, attribute color.Attribute) string {
	if none, _ := t.env("NO_COLOR"); none != "" || !isTerminal(t.out) {
		return text
	}
	p := color.New(attribute)
	p.EnableColor()
	return p.Sprint(text)
}

// sayf prints a sentence for people. Other formats hold results only.
func (t *tool) sayf(format string, args ...any) {
	if t.printer.Human() {
		fmt.Fprintf(t.out, format+"\n", args...)
	}
}

// errNotConfirmed is the answer no to a question.
var errNotConfirmed = errors.New("nothing was done")

// confirm asks before something that cannot be undone. Without a terminal it needs --yes.
func (t *tool) confirm(ctx context.Context, yes bool, question string) error {
	if yes {
		return nil
	}
	if !isTerminal(t.in) {
		return usageError(question + " Confirm it by --yes.")
	}
	fmt.Fprintf(t.errOut, "%s: %s [y/N] ", t.target.API, question)
	var answer string
	_, err := fmt.Fscanln(t.input(ctx), &answer)
	switch {
	case ctx.Err() != nil:
		fmt.Fprintln(t.errOut) // ends the line of the question
		return ctx.Err()       //nolint:wrapcheck // of the caller
	case err != nil || !strings.HasPrefix(strings.ToLower(answer), "y"):
		return errNotConfirmed
	}
	return nil
}
