// Command carillon-peers measures peers of Carillon at rising rates and prints a Markdown table. It
// needs servers that hold nothing else: scripts/bench-peers.sh starts them, measures Carillon in
// the same run, and adds its results. The exit code says whether the measurements were made, not
// what they were.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/carillon-timer/carillon/e2e/load"
	"github.com/carillon-timer/carillon/e2e/peers"
	"github.com/carillon-timer/carillon/e2e/receiver"
)

type options struct {
	redis, postgres, rates, add, json, worker string
	length                                    time.Duration
}

func main() {
	var o options
	flag.StringVar(&o.redis, "redis", "", "address of a Redis for asynq; it is emptied")
	flag.StringVar(&o.postgres, "postgres", "", "DSN of a PostgreSQL for River; it is emptied")
	flag.StringVar(&o.rates, "rates", "1000,2000,4000,6000,8000", "rates, in calls per second")
	flag.DurationVar(&o.length, "length", 20*time.Second, "length of each measurement")
	flag.StringVar(&o.add, "add", "", "files of results to print first, as of carillon-load")
	flag.StringVar(&o.json, "json", "", "file for the results as JSON")
	flag.StringVar(&o.worker, "worker", "", "run the worker of this system; for this command only")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx, o, os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "carillon-peers:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options, out, log io.Writer) error {
	systems := make(map[string]peers.System)
	if o.redis != "" {
		systems["asynq"] = peers.Asynq(o.redis)
	}
	if o.postgres != "" {
		systems["river"] = peers.River(o.postgres)
	}
	if o.worker != "" {
		s := systems[o.worker]
		if s == nil {
			return fmt.Errorf("no address for the system %q", o.worker)
		}
		return s.Work(ctx, peers.NewCaller().Call) //nolint:wrapcheck // it says what failed
	}
	var results []load.Result
	for _, file := range list(o.add) {
		rs, err := read(file)
		if err != nil {
			return err
		}
		results = append(results, rs...)
	}
	own, err := measure(ctx, o, systems, log)
	if err != nil {
		return err
	}
	results = append(results, own...)
	slices.SortStableFunc(results, func(a, b load.Result) int {
		return cmp.Compare(a.RateAsked, b.RateAsked)
	})
	fmt.Fprintln(out, peers.Table(results))
	for _, name := range []string{"asynq", "river"} {
		if s := systems[name]; s != nil {
			fmt.Fprintf(out, "- %s: %s\n", s.Name(), s.Settings())
		}
	}
	return write(o.json, results)
}

func measure(
	ctx context.Context,
	o options,
	systems map[string]peers.System,
	log io.Writer,
) (results []load.Result, err error) {
	if len(systems) == 0 {
		return nil, nil
	}
	rcv, err := receiver.Start(ctx, "127.0.0.1:0")
	if err != nil {
		return nil, err //nolint:wrapcheck // it says what failed
	}
	defer rcv.Close()
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding this program: %w", err)
	}
	for _, name := range []string{"asynq", "river"} {
		s := systems[name]
		if s == nil {
			continue
		}
		b := peers.Bench{
			Receiver: rcv,
			Worker: func(ctx context.Context, _ peers.System) *exec.Cmd {
				c := exec.CommandContext(ctx, self, //nolint:gosec // this program, by its own flags
					"-worker", name, "-redis", o.redis, "-postgres", o.postgres)
				c.Stderr = log
				return c
			},
			Log: func(format string, args ...any) { fmt.Fprintf(log, format+"\n", args...) },
		}
		for _, text := range list(o.rates) {
			rate, err := strconv.Atoi(text)
			if err != nil || rate < 1 {
				return nil, fmt.Errorf("-rates: %q is not a rate", text)
			}
			r, err := b.Run(ctx, s, rate, o.length)
			if err != nil {
				return nil, fmt.Errorf("measuring %s: %w", s.Name(), err)
			}
			results = append(results, r)
		}
	}
	return results, nil
}

// list splits a list at its commas. It is empty for an empty text.
func list(text string) []string {
	return strings.FieldsFunc(text, func(c rune) bool { return c == ',' })
}

func read(file string) (rs []load.Result, err error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading results: %w", err)
	}
	if err := json.Unmarshal(b, &rs); err != nil {
		return nil, fmt.Errorf("reading results of %s: %w", file, err)
	}
	return rs, nil
}

func write(file string, rs []load.Result) error {
	if file == "" {
		return nil
	}
	b, err := json.MarshalIndent(rs, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding results: %w", err)
	}
	if err := os.WriteFile(file, append(b, '\n'), 0o600); err != nil { //nolint:mnd // a mode
		return fmt.Errorf("writing results: %w", err)
	}
	return nil
}
