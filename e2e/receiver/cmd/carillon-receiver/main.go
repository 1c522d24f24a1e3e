// Command carillon-receiver listens for callbacks and prints a JSON line about the arrivals of each
// interval. On SIGINT or SIGTERM it prints the totals and exits.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/carillon-timer/carillon/e2e/receiver"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "carillon-receiver:", err)
		os.Exit(1)
	}
}

// line is one printed line.
type line struct {
	Arrivals   int64              `json:"arrivals"`
	PerSecond  float64            `json:"per_second,omitempty"`
	Duplicates *int               `json:"duplicates,omitempty"`
	Early      *int               `json:"early,omitempty"`
	Lateness   receiver.Quantiles `json:"lateness,omitzero"`
}

func run(ctx context.Context, args []string, out io.Writer) error {
	fs := flag.NewFlagSet("carillon-receiver", flag.ContinueOnError)
	addr := fs.String("addr", "127.0.0.1:9090", "listening address; port 0 picks a free one")
	every := fs.Duration("every", time.Second, "how often to print")
	if err := fs.Parse(args); err != nil {
		return fmt.Errorf("reading flags: %w", err)
	}
	r, err := receiver.Start(ctx, *addr)
	if err != nil {
		return err //nolint:wrapcheck // it says what it was doing
	}
	fmt.Fprintf(os.Stderr, "receiving on http://%s\n", r.Addr())
	enc := json.NewEncoder(out)
	tick := time.NewTicker(*every)
	defer tick.Stop()
	for last := int64(0); ; {
		select {
		case <-tick.C:
			n := r.Count()
			if err := enc.Encode(
				line{Arrivals: n, PerSecond: float64(n-last) / every.Seconds()},
			); err != nil {
				return fmt.Errorf("printing: %w", err)
			}
			last = n
		case <-ctx.Done():
			as := r.Arrivals()
			dup, early := len(as.Duplicates()), len(as.Early(0))
			if err := enc.Encode(
				line{Arrivals: r.Count(), Duplicates: &dup, Early: &early, Lateness: as.Lateness()},
			); err != nil {
				return fmt.Errorf("printing: %w", err)
			}
			return r.Close() //nolint:wrapcheck // it says what it was doing
		}
	}
}
