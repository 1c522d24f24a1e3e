package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/carillon-timer/carillon/services/cli/internal/bench"
	"github.com/carillon-timer/carillon/services/cli/internal/client"
)

// benchFlags are the flags of carillon bench.
type benchFlags struct {
	listen, url, receiver string
	connections, batch    int
	settle                time.Duration
	keep, noCeiling       bool
}

// Defaults of carillon bench.
const (
	benchApp         = "bench"
	benchConnections = 32
	benchBatch       = 500
	benchMaxBatch    = 1000 // of the API
	benchSettle      = 90 * time.Second
)

func (t *tool) benchCommand() *cobra.Command {
	var f benchFlags
	c := &cobra.Command{
		Use:   "bench PHASE...",
		Short: "measure lateness and speed of a deployment by its API",
		Long: `It creates timers in the app "` + benchApp + `", or the app of --app, receives their calls, and compares what
came with what was due. It deletes the timers afterwards. The phases are measured one after the
other:

` + bench.Grammar + `

Executors must reach the receiver. It listens on a port of this machine. If they run elsewhere, give
--listen and --url, or run carillon bench receive beside them and give its address as --receiver.

Lateness is the start of the call by the executor's clock minus the instant at which it was due. The
bare calls per second that this machine makes by Go's HTTP client are measured first. The exit code
is 1 if a fire was early, missing or repeated, or timers could not be deleted.`,
		Example: `  carillon bench rate:1000:30s burst:10000
  carillon bench cron:500:60s minute:5000:100 -o json`,
		Args: usageArgs(cobra.MinimumNArgs(1)),
		RunE: func(c *cobra.Command, args []string) error {
			phases := make([]bench.Phase, len(args))
			for i, text := range args {
				var err error
				if phases[i], err = bench.ParsePhase(text); err != nil {
					return usageError(err.Error())
				}
			}
			if err := f.check(); err != nil {
				return err
			}
			return t.bench(c.Context(), &f, phases)
		},
	}
	fs := c.Flags()
	fs.StringVar(&f.listen, "listen", "127.0.0.1:0", "where the receiver listens")
	fs.StringVar(
		&f.url,
		"url",
		"",
		"the receiver's address as executors reach it; that of --listen by default",
	)
	fs.StringVar(
		&f.receiver,
		"receiver",
		"",
		"address of a receiver elsewhere: see carillon bench receive",
	)
	fs.IntVar(&f.connections, "connections", benchConnections, "connections that create timers")
	fs.IntVar(
		&f.batch,
		"batch",
		benchBatch,
		"timers created by one request; 1 creates each by its own",
	)
	fs.DurationVar(&f.settle, "settle", benchSettle, "how long to wait for late calls")
	fs.BoolVar(&f.keep, "keep", false, "do not delete the timers")
	fs.BoolVar(&f.noCeiling, "no-ceiling", false, "do not measure bare calls first")
	c.AddCommand(t.benchReceive())
	return c
}

func (f *benchFlags) check() error {
	switch {
	case f.connections < 1:
		return usageError("--connections: expected at least 1")
	case f.batch < 1 || f.batch > benchMaxBatch:
		return usageError(fmt.Sprintf("--batch: expected 1 to %d", benchMaxBatch))
	case f.receiver != "" && f.url != "":
		return usageError("--url: it is of the receiver here; leave it out with --receiver")
	}
	for name, text := range map[string]string{"url": f.url, "receiver": f.receiver} {
		if u, err := url.Parse(text); text != "" && (err != nil || u.Host == "") {
			return usageError(fmt.Sprintf("--%s: expected http://HOST:PORT, found %q", name, text))
		}
	}
	return nil
}

func (t *tool) benchReceive() *cobra.Command {
	var listen string
	c := &cobra.Command{
		Use:   "receive",
		Short: "run a receiver for a bench that runs elsewhere",
		Long: "It keeps the calls in memory until the bench asks for them. Everybody who reaches it may\n" +
			"read and delete them.",
		Args: usageArgs(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			r, err := bench.StartReceiver(c.Context(), listen, "")
			if err != nil {
				return err //nolint:wrapcheck // it says what it was doing
			}
			t.sayf("receiving at %s; Ctrl-C ends it", listen)
			return errors.Join(r.Wait(c.Context()), r.Close())
		},
	}
	c.Flags().StringVar(&listen, "listen", ":9000", "where it listens")
	return c
}

// benchReport is the result of a run, as JSON.
type benchReport struct {
	Ceiling float64         `json:"bare_calls_per_second,omitempty"`
	Phases  []*bench.Result `json:"phases"`
}

func (t *tool) bench(ctx context.Context, f *benchFlags, phases []bench.Phase) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	source, end, err := f.source(ctx)
	if err != nil {
		return err
	}
	defer end()
	app := cmp.Or(t.app, benchApp) // that of a context or variable has timers of its own
	var report benchReport
	if !f.noCeiling {
		if report.Ceiling, err = bench.Ceiling(ctx, source); err != nil {
			return err //nolint:wrapcheck // it says what it was doing
		}
		t.sayf("bare calls  %.0f/s by Go's HTTP client on this machine\n", report.Ceiling)
	}
	err = t.withClient(func(api *client.Client) error {
		b := bench.New(bench.Options{
			API: api, App: app, Receiver: source,
			Connections: f.connections, Batch: f.batch, Settle: f.settle, Keep: f.keep,
			Local:    isLoopback(t.target.API),
			Progress: t.errOut, Terminal: isTerminal(t.errOut),
		})
		for _, p := range phases {
			r, err := b.Run(ctx, p)
			if err != nil {
				return fmt.Errorf("%s: %w", p, err)
			}
			report.Phases = append(report.Phases, r)
			t.sayf("%s", r.Text(report.Ceiling))
			if r.CleanUpFail != "" {
				break // they disturb the phases that follow
			}
		}
		return nil
	})
	if left, ok := errors.AsType[*bench.LeftError](err); ok && ctx.Err() != nil {
		fmt.Fprintln(t.errOut, left) // run replaces the error of what was stopped
	}
	if err == nil && !t.printer.Human() {
		err = t.printReport(&report)
	}
	if err != nil {
		return err
	}
	return report.fault()
}

// fault returns what is wrong with the phases.
func (r *benchReport) fault() error {
	var all []error
	for _, p := range r.Phases {
		if p.CleanUpFail != "" {
			all = append(all, errors.New("timers are left: "+p.CleanUpFail))
		}
	}
	if slices.ContainsFunc(r.Phases, func(p *bench.Result) bool { return !p.OK() }) {
		all = append(all, errors.New("a fire was early, missing or repeated: see above"))
	}
	return errors.Join(all...)
}

// printReport prints a report in the format that the flags say.
func (t *tool) printReport(r *benchReport) error {
	data, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encoding the results: %w", err)
	}
	o, err := client.Decode(data)
	if err != nil {
		return err //nolint:wrapcheck // it says what it was doing
	}
	return t.printer.One(o) //nolint:wrapcheck // it says what it was doing
}

// source starts the receiver, or returns that elsewhere.
func (f *benchFlags) source(ctx context.Context) (s bench.Source, end func(), err error) {
	if f.receiver != "" {
		return bench.NewRemote(f.receiver), func() {}, nil
	}
	r, err := bench.StartReceiver(ctx, f.listen, f.url)
	if err != nil {
		return nil, nil, err //nolint:wrapcheck // it says what it was doing
	}
	return r, func() { _ = r.Close() }, nil
}

// isLoopback reports whether an address is on this machine.
func isLoopback(address string) bool {
	u, err := url.Parse(address)
	if err != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}
