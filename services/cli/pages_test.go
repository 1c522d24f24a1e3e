package cli_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/bus"
	"github.com/carillon-timer/carillon/libs/bus/pulsarbus"
	"github.com/carillon-timer/carillon/libs/testenv"
	"github.com/carillon-timer/carillon/libs/testenv/document"
)

const repository = "../.."

// TestPages runs the commands of every document, page by page, in their order, each page against a
// process of its own. CONTRIBUTING.md describes the attributes of the blocks.
func TestPages(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"bash", "curl", "make"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("!!! SKIPPED, UNTESTED: the commands of the documents: there is no %s", tool)
		}
	}
	pages, err := document.Read(repository)
	require.NoError(t, err)
	program := programDir(t)
	ran := 0
	for page, blocks := range pages {
		mine := slices.DeleteFunc(slices.Clone(blocks), notHere)
		if !slices.ContainsFunc(mine, isCommands) {
			continue
		}
		ran++
		t.Run(page, func(t *testing.T) {
			t.Parallel()
			run := newPage(t, program)
			run.do(slices.DeleteFunc(slices.Clone(mine), needsServer))
		})
		if !slices.ContainsFunc(mine, needsServer) {
			continue
		}
		t.Run(page+" on servers", func(t *testing.T) {
			t.Parallel()
			run := newPage(t, program)
			run.useServers()
			run.do(mine)
		})
	}
	require.Greater(t, ran, 15)
}

// isCommands tells whether a block has commands.
func isCommands(b document.Block) bool { return b.Language == "sh" }

// needsServer tells whether a block needs servers that a test of this package can have.
func needsServer(b document.Block) bool {
	return b.Attributes["needs"] == "mysql" || b.Attributes["needs"] == "pulsar"
}

// notHere tells whether a block is run by a test elsewhere, or is only checked.
func notHere(b document.Block) bool {
	need := b.Attributes["needs"]
	return need != "" && !needsServer(b) || b.Attributes["check"] != ""
}

// page is a run of the commands of a page.
type page struct {
	t          *testing.T
	home       string // an empty folder, in which it runs
	api, admin string // the addresses of the process
	env        []string
	replace    []string
}

func newPage(t *testing.T, program string) *page {
	t.Helper()
	p := &page{t: t, home: t.TempDir(), api: freeAddress(t), admin: freeAddress(t)}
	p.replace = []string{"127.0.0.1:8080", p.api, "127.0.0.1:8081", p.admin}
	p.env = []string{
		"PATH=" + program + ":" + os.Getenv("PATH"), "HOME=" + p.home, "TZ=UTC", "EDITOR=true",
		"CARILLON_API=http://" + p.api,
	}
	for _, name := range []string{"GOCACHE", "GOMODCACHE", "GOPATH", "GOPROXY", "GOFLAGS"} {
		value, err := exec.CommandContext(t.Context(), "go", "env", name).Output()
		require.NoError(t, err)
		p.env = append(p.env, name+"="+strings.TrimSpace(string(value)))
	}
	return p
}

// useServers lets the commands use an empty database, and a Pulsar with the topics of a cluster,
// instead of those that the page names.
func (p *page) useServers() {
	p.t.Helper()
	p.replace = append(p.replace, "carillon:…@tcp(mysql:3306)/carillon", testenv.MySQL(p.t))
	namespace := testenv.Pulsar(p.t)
	b, err := pulsarbus.New(pulsarbus.Options{Log: zerolog.Nop(), Config: pulsarbus.Config{
		URL:       namespace.URL,
		AdminURL:  namespace.AdminURL,
		Tenant:    namespace.Tenant,
		Namespace: namespace.Namespace,
	}})
	require.NoError(p.t, err)
	defer func() { require.NoError(p.t, b.Close()) }()
	require.NoError(p.t, b.Setup(p.t.Context(), bus.Topics(2)))
	p.env = append(p.env,
		"CARILLON_PULSAR_URL="+namespace.URL,
		"CARILLON_PULSAR_ADMIN_URL="+namespace.AdminURL,
		"CARILLON_PULSAR_TENANT="+namespace.Tenant,
		"CARILLON_PULSAR_NAMESPACE="+namespace.Namespace,
	)
}

// ports are those that pages have.
var ports sync.Map

// freeAddress returns an address on which nothing listens. Its port is none that the kernel gives
// to others meanwhile, because it gives ports from 32768 on.
func freeAddress(t *testing.T) string {
	t.Helper()
	const first, count = 20000, 12000
	for range count {
		address := "127.0.0.1:" + strconv.Itoa(first+rand.IntN(count))
		if _, taken := ports.LoadOrStore(address, true); taken {
			continue
		}
		l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", address)
		if err != nil {
			continue
		}
		require.NoError(t, l.Close())
		return address
	}
	t.Fatal("there is no free port")
	return ""
}

const (
	// mark begins the output of a block.
	mark = "@@@ block "

	// answers is where the process of a page answers when it is ready.
	answers = "http://127.0.0.1:8081/readyz"

	// prelude has what the commands of a page need. curl fails where the answer is an error.
	prelude = `
curl() { command curl --fail-with-body "$@"; }

# interrupt stops what goes on in the background, as Ctrl-C does, the process of the page at last.
# make ends by the signal.
groups=()
interrupt() {
  local group code
  for group in "${groups[@]}"; do
    kill -INT -- "-$group"
    code=0
    wait "$group" || code=$?
    [[ $code = 0 || $code = 130 ]] || { echo "what was interrupted ended with code $code"; exit 1; }
  done
  groups=()
}

# await GROUP OUTPUT TEXT: waits until a group of processes has printed a text, or a URL answers.
await() {
  groups=("$1" "${groups[@]}")
  echo "$1" >> "$HOME/groups"
  until if [[ $3 = http://* ]]; then command curl -fso /dev/null "$3"; else grep -qF -- "$3" "$2"; fi; do
    kill -0 "$1" || { echo "what runs in the background has ended"; exit 1; }
    sleep 0.05
  done
}
`
)

// script returns a page as one script, so that variables stay.
func (p *page) script(blocks []document.Block) string {
	var script strings.Builder
	script.WriteString(prelude)
	first := slices.IndexFunc(blocks, isCommands)
	if blocks[first].Attributes["background"] != answers {
		p.background(&script, -1, answers, "carillon dev\n")
	}
	for i, b := range blocks {
		switch file, text := b.Attributes["file"], b.Attributes["background"]; {
		case file != "":
			fmt.Fprintf(
				&script,
				"mkdir -p \"$(dirname '%s')\"\ncat > '%s' <<'END OF FILE'\n%sEND OF FILE\n",
				file,
				file,
				b.Text,
			)
		case b.Language != "sh":
		default:
			fmt.Fprintf(&script, "echo '%s%d'\n", mark, i)
			if b.Attributes["repository"] != "" {
				root, err := filepath.Abs(repository)
				require.NoError(p.t, err)
				fmt.Fprintf(&script, "cd '%s'\nexport CARILLON_DATA_DIR=\"$HOME/data\"\n", root)
			}
			if text != "" {
				p.background(&script, i, text, b.Text)
			} else {
				script.WriteString(b.Text)
			}
		}
	}
	script.WriteString("interrupt\n")
	return strings.NewReplacer(p.replace...).Replace(script.String())
}

// background starts a block that goes on until it is interrupted. The process of the page replaces
// the one before it, which has the same addresses.
func (p *page) background(script *strings.Builder, i int, text, commands string) {
	if text == answers {
		script.WriteString("interrupt\n")
	}
	output := filepath.Join(p.home, fmt.Sprintf("background%d.log", i))
	fmt.Fprintf(
		script,
		"set -m # in a group of its own\n{ export CARILLON_HTTP_ADDR=%s CARILLON_ADMIN_ADDR=%s\n%s} > '%s' 2>&1 &\nset +m\nawait $! '%s' '%s'\n",
		p.api,
		p.admin,
		commands,
		output,
		output,
		text,
	)
}

// do runs the blocks, and compares what they print.
func (p *page) do(blocks []document.Block) {
	t := p.t
	t.Helper()
	var out bytes.Buffer
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute) // make run builds
	defer cancel()
	run := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", p.script(blocks))
	run.Dir = p.home
	run.WaitDelay = time.Second
	run.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // away from the terminal of the test
	run.Stdout, run.Stderr = &out, &out
	run.Env = p.env
	err := run.Run()
	if err != nil {
		p.killGroups()
	}
	require.NoError(t, err, "%s%s", &out, p.logs())
	printed := make(map[int]string)
	for part := range strings.SplitSeq(out.String(), mark) {
		var i int
		if number, text, ok := strings.Cut(part, "\n"); ok && number != "" {
			_, err := fmt.Sscan(number, &i)
			require.NoError(t, err, part)
			printed[i] = text
		}
	}
	here := strings.NewReplacer(p.replace...)
	for i, b := range blocks {
		if b.Attributes["output"] != "" {
			require.Equal(t, "sh", blocks[i-1].Language, "%s: what prints this?", &b)
			require.Regexp(t, likeness(here.Replace(b.Text)), alike(printed[i-1]), &b)
		}
	}
}

// killGroups ends what a script that failed has left behind.
func (p *page) killGroups() {
	groups, err := os.ReadFile(filepath.Join(p.home, "groups"))
	if err != nil {
		return // it started none
	}
	for group := range strings.FieldsSeq(string(groups)) {
		if pid, err := strconv.Atoi(group); err == nil {
			_ = syscall.Kill(-pid, syscall.SIGKILL)
		}
	}
}

// logs returns what was printed in the background.
func (p *page) logs() string {
	var all strings.Builder
	files, err := filepath.Glob(filepath.Join(p.home, "background*.log"))
	require.NoError(p.t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(p.t, err)
		fmt.Fprintf(&all, "\n%s:\n%s", filepath.Base(file), text)
	}
	return all.String()
}

var (
	duration = regexp.MustCompile(`\b\d+(\.\d+)?(µs|ms|s)\b`)
	// A fraction that is zero is not printed: one in a thousand instants is of a full second.
	number   = regexp.MustCompile(`\d+(\.\d+)?`)
	spaces   = regexp.MustCompile(`[ \t]+`)
	anything = regexp.MustCompile(`…\n?`)
)

// alike returns a text with all numbers and spaces alike.
func alike(text string) string {
	text = number.ReplaceAllString(duration.ReplaceAllString(text, "0s"), "0")
	return strings.TrimSpace(spaces.ReplaceAllString(text, " "))
}

// likeness returns an expression for the texts that are like an example.
func likeness(example string) string {
	return `^` + anything.ReplaceAllString(regexp.QuoteMeta(alike(example)), `(?s:.*)`) + `$`
}

func TestLikeness(t *testing.T) {
	t.Parallel()
	require.Regexp(
		t,
		likeness("12 rows as of 2026-11-23T10:00:00.123Z, took 1.5s…"),
		alike("7 rows  as of 2026-01-02T03:04:05Z, took 90ms\nand more"),
		"an instant of a full second",
	)
	require.NotRegexp(t, likeness("12 rows"), alike("12 tables"))
}
