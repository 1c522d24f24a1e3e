// Command carillon-chaos injects every known fault into a deployment on real servers, prints the
// results for the fires, and stores them in a table. It stops everything that it started. The exit
// code is 1 if a promise did not hold. It does not check speed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"syscall"

	"github.com/carillon-timer/carillon/e2e/chaos"
	"github.com/carillon-timer/carillon/e2e/cluster"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	var (
		names, out, doc string
		list, keep      bool
		onClusters      bool
		o               = chaos.Options{Log: stderr}
	)
	fs := flag.NewFlagSet("carillon-chaos", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.StringVar(&names, "run", "", "scenarios to run, a regular expression; empty: all")
	fs.StringVar(&o.Bin, "bin", "", "directory of the programs; empty: build them")
	fs.IntVar(&o.Rate, "rate", 500, "fires per second")
	fs.IntVar(
		&o.Capacity,
		"capacity",
		3000,
		"capacity of this machine in fires per second; the overload is three times as much",
	)
	fs.StringVar(
		&out,
		"json",
		"",
		"file for the results; it keeps those of scenarios that do not run",
	)
	fs.StringVar(&doc, "doc", "", "document whose table of results is replaced")
	fs.BoolVar(
		&onClusters,
		"cluster",
		false,
		"the scenarios on clusters of servers, instead of the others",
	)
	fs.BoolVar(&list, "list", false, "list the scenarios")
	fs.BoolVar(&keep, "keep", false, "keep the logs of successful runs")
	if err := fs.Parse(args); err != nil {
		return err
	}
	var scenarios []*chaos.Scenario
	want, err := regexp.Compile("^(" + names + ")$")
	if err != nil {
		return fmt.Errorf("-run: %w", err)
	}
	known, marker := chaos.Scenarios(), "chaos"
	if onClusters {
		known, marker = chaos.ClusterScenarios(), "chaos-cluster"
	}
	for _, s := range known {
		if list {
			fmt.Fprintf(stdout, "%-16s %s\n", s.Name, s.About)
		}
		if names == "" || want.MatchString(s.Name) {
			scenarios = append(scenarios, s)
		}
	}
	switch {
	case list:
		return nil
	case len(scenarios) == 0:
		return fmt.Errorf("-run: no scenario matches %s (-list lists them)", names)
	}
	if o.Root, err = cluster.Root(); err != nil {
		return err
	}
	cache := filepath.Join(o.Root, ".cache")
	if err := os.MkdirAll(cache, 0o755); err != nil { //nolint:gosec // Galera has its own user
		return fmt.Errorf("creating a directory: %w", err)
	}
	if o.Dir, err = os.MkdirTemp(cache, "chaos-"); err != nil {
		return fmt.Errorf("creating a directory: %w", err)
	}
	if err := os.Chmod(o.Dir, 0o711); err != nil { //nolint:gosec // the same
		return fmt.Errorf("letting Galera's user enter a directory: %w", err)
	}
	if o.Bin == "" {
		o.Bin = filepath.Join(o.Dir, "bin")
		if err := cluster.BuildAt(ctx, o.Root, o.Bin); err != nil {
			return err
		}
	}
	var fresh []*chaos.Result
	var keepErr error
	err = chaos.Run(ctx, o, scenarios, func(r *chaos.Result) {
		fresh = append(fresh, r)
		keepErr = errors.Join(keepErr, keepResults(out, doc, marker, r))
	})
	err = errors.Join(err, keepErr)
	fmt.Fprint(stdout, chaos.Table(fresh))
	broken := 0
	for _, r := range fresh {
		if !r.OK() {
			broken++
		}
	}
	if broken > 0 {
		err = errors.Join(err, fmt.Errorf("%d of %d scenarios broke a promise", broken, len(fresh)))
	}
	if err == nil && !keep {
		return os.RemoveAll(o.Dir)
	}
	fmt.Fprintln(stderr, "logs:", o.Dir)
	return err
}

// keepResults saves after each scenario, because a run is long and may be stopped.
func keepResults(out, doc, marker string, r *chaos.Result) error {
	if out == "" {
		return nil
	}
	all, err := chaos.Save(out, []*chaos.Result{r})
	if err != nil || doc == "" {
		return err
	}
	return chaos.Insert(doc, marker, chaos.Table(all))
}
