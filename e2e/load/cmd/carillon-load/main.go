// Command carillon-load starts Carillon, measures it under load, and prints the results: a Markdown
// table on stdout, JSON in a file. It stops everything that it started. The exit code is 1 if a
// fire was early, repeated or missing. It does not check speed.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/carillon-timer/carillon/e2e/cluster"
	"github.com/carillon-timer/carillon/e2e/load"
	"github.com/carillon-timer/carillon/e2e/receiver"
)

// Phases of bench-smoke, at the rates that a two-core machine should reach. Crons come last,
// because skipping their expanded fires after their deletion costs CPU time.
const (
	phasesAllInOne = "rate:1000:15s,rate:8000:20s,burst:100000,cron:500:15s"
	phasesReal     = "rate:1000:15s,rate:6000:20s,burst:100000,cron:500:15s"
)

type options struct {
	runners, phases, bin, json string
	replicas, conns, batch     int
	keep                       bool
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "carillon-load:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out, log io.Writer) error {
	var o options
	fs := flag.NewFlagSet("carillon-load", flag.ContinueOnError)
	fs.StringVar(&o.runners, "runners", "allinone,real", "runners: allinone, real, or both")
	fs.StringVar(
		&o.phases,
		"phases",
		"",
		"phases, such as rate:6000:30s,cron:2000:20s,burst:100000,stored:1000000,kill:100:20s; default: those of bench-smoke",
	)
	fs.IntVar(&o.replicas, "replicas", 1, "replicas of each service, with real")
	fs.IntVar(&o.conns, "conns", 64, "connections that create timers")
	fs.IntVar(&o.batch, "batch", 1, "timers created by one request")
	fs.StringVar(&o.bin, "bin", "", "directory of the programs; default: build them")
	fs.StringVar(&o.json, "json", "", "file for the results as JSON")
	fs.BoolVar(&o.keep, "keep", false, "keep logs and data")
	if err := fs.Parse(args); err != nil {
		return fmt.Errorf("reading flags: %w", err)
	}
	dir, err := os.MkdirTemp("", "carillon-load-")
	if err != nil {
		return fmt.Errorf("creating the log directory: %w", err)
	}
	fmt.Fprintln(log, "logs and data:", dir)
	if o.bin == "" {
		o.bin = filepath.Join(dir, "bin")
		if err := cluster.Build(ctx, o.bin); err != nil {
			return err //nolint:wrapcheck // it says what it was doing
		}
	}
	var results []load.Result
	for name := range strings.SplitSeq(o.runners, ",") {
		rs, err := measure(ctx, &o, name, filepath.Join(dir, name), log)
		results = append(results, rs...)
		if err != nil {
			fmt.Fprint(out, load.Markdown(results))
			return fmt.Errorf("%s: %w (logs: %s)", name, err, dir)
		}
	}
	fmt.Fprint(out, load.Markdown(results))
	if !o.keep {
		_ = os.RemoveAll(dir)
	}
	return report(&o, results)
}

func report(o *options, results []load.Result) error {
	if o.json != "" {
		b, err := json.MarshalIndent(results, "", "  ")
		if err != nil {
			return fmt.Errorf("writing results: %w", err)
		}
		//nolint:gosec,mnd // no secret
		if err := os.WriteFile(o.json, append(b, '\n'), 0o644); err != nil {
			return fmt.Errorf("writing results: %w", err)
		}
	}
	for i := range results {
		if !results[i].OK() {
			return errors.New("a promise was broken: see early, dup and missing")
		}
	}
	return nil
}

func measure(
	ctx context.Context,
	o *options,
	name, dir string,
	log io.Writer,
) ([]load.Result, error) {
	if err := os.MkdirAll(dir, 0o750); err != nil { //nolint:mnd // ours alone
		return nil, fmt.Errorf("creating the log directory: %w", err)
	}
	c, end, text, err := start(ctx, o, name, dir)
	if err != nil {
		return nil, err
	}
	defer end()
	if o.phases != "" {
		text = o.phases
	}
	phases, err := load.ParsePhases(text)
	if err != nil {
		return nil, err //nolint:wrapcheck // it says what is wrong
	}
	rcv, err := receiver.Start(ctx, "127.0.0.1:0")
	if err != nil {
		return nil, err //nolint:wrapcheck // it says what it was doing
	}
	defer rcv.Close()
	b := load.NewBench(c, rcv, o.conns, o.batch, log)
	// To fill caches and measure how fast timers are created.
	if _, err := b.Run(ctx, load.Phase{Kind: load.Burst, Rate: 2000}); err != nil {
		return nil, err //nolint:wrapcheck // it says what it was doing
	}
	var rs []load.Result
	for _, p := range phases {
		r, err := b.Run(ctx, p)
		if err != nil {
			return rs, err //nolint:wrapcheck // it says what it was doing
		}
		rs = append(rs, r)
	}
	return rs, nil
}

func start(
	ctx context.Context,
	o *options,
	name, dir string,
) (c cluster.Cluster, end func(), phases string, err error) {
	opts := cluster.Options{Bin: o.bin, Dir: dir, Replicas: o.replicas}
	switch name {
	case "allinone":
		c, err = cluster.StartAllInOne(ctx, opts)
		if err != nil {
			return nil, nil, "", err //nolint:wrapcheck // it says what it was doing
		}
		return c, c.Close, phasesAllInOne, nil
	case "real":
		servers, free, err := cluster.RealServers()
		if err != nil {
			return nil, nil, "", err //nolint:wrapcheck // it says what it was doing
		}
		c, err := cluster.StartReal(ctx, opts, *servers)
		if err != nil {
			free()
			return nil, nil, "", err //nolint:wrapcheck // it says what it was doing
		}
		return c, func() { c.Close(); free() }, phasesReal, nil
	}
	return nil, nil, "", fmt.Errorf("no runner %q: allinone or real", name)
}
