package allinone

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/fatih/color"

	"github.com/carillon-timer/carillon/libs/config"
	"github.com/carillon-timer/carillon/libs/process"
	"github.com/carillon-timer/carillon/services/wiring"
)

// showPanel prints on a terminal what a person needs to know of a process that has started: the
// addresses, where the data is, whether callers need a key, and a command to try.
func showPanel(w io.Writer, env process.Env, k *wiring.Kit) error {
	bold := color.New(color.Bold)
	if none, _ := env("NO_COLOR"); none == "" {
		bold.EnableColor()
	} else {
		bold.DisableColor()
	}
	at, admin := apiAddress(k), "http://"+reachable(k.Process.AdminAddr())
	var b strings.Builder
	fmt.Fprintf(&b, "\n  %s %s\n\n", bold.Sprint("Carillon"), process.Version())
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0) //nolint:mnd // the gap between columns
	rows := [][2]string{
		{"API", at + "/api/v2"},
		{"Echo", at + EchoPath + "  prints each call below"},
		{"Metrics", admin + "/metrics"},
		{"State", admin + "/readyz"},
		{"Data", dataDir(k)},
		{"Keys", describeKeys(k)},
	}
	if k.Settings.API.Page {
		rows = append([][2]string{{"Page", at + "/"}}, rows...)
	}
	for _, row := range rows {
		fmt.Fprintf(table, "  %s\t%s\n", row[0], row[1])
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("printing the panel: %w", err)
	}
	fmt.Fprintf(
		&b,
		"\n  Create a timer in another terminal:\n\n    %s\n\n",
		bold.Sprint(example(k, at)),
	)
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("printing the panel: %w", err)
	}
	return nil
}

// describeKeys says whether callers need a key, and where the first one is.
func describeKeys(k *wiring.Kit) string {
	switch {
	case k.Keyless:
		return "not needed: anyone who reaches the API may use it"
	case k.Settings.API.AdminKeyFile != "":
		return "needed; the admin key is in " + k.Settings.API.AdminKeyFile
	case k.Settings.API.AdminKey != "":
		return "needed; the admin key is the setting admin-key"
	default:
		return "needed; those of api-keys-file, or set an admin key: carillon admin-key"
	}
}

// example returns a command that creates a timer, which calls the echo endpoint where timers may
// call this machine.
func example(k *wiring.Kit, at string) string {
	var variables string
	// Without the flag, a variable or a context of the other terminal may name another deployment.
	flags := " --api " + at
	if !k.Keyless {
		if f := k.Settings.API.AdminKeyFile; f != "" {
			flags += " --key-file " + quote(f)
		} else {
			variables = config.EnvPrefix + "API_KEY=$" + config.EnvPrefix + "ADMIN_KEY "
		}
	}
	target := at + EchoPath
	if k.Settings.Callback.AllowPrivate == config.No {
		target = "https://example.com/hook"
	}
	return fmt.Sprintf(
		"%scarillon timer create hello-$(date +%%s) --app demo --delay 3s --url %s --body hello%s",
		variables, target, flags,
	)
}

// quote quotes a word for a shell, if it needs that.
func quote(word string) string {
	if strings.ContainsAny(word, " \t\"'$`\\&|;<>()*?[]#~!{}") {
		return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	}
	return word
}
