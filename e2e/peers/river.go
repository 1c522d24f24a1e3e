package peers

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

const (
	riverBatch    = 5000 // jobs per insert
	riverCooldown = 10 * time.Millisecond
	riverPoll     = 50 * time.Millisecond
	riverConns    = 30
	riverStop     = 10 * time.Second
)

type riverSystem struct{ dsn string }

// River returns River on a PostgreSQL.
func River(dsn string) System { return &riverSystem{dsn} }

func (*riverSystem) Name() string { return "River " + version("github.com/riverqueue/river") }

func (*riverSystem) Settings() string {
	return fmt.Sprintf("MaxWorkers %d, FetchCooldown %v, FetchPollInterval %v, %d connections",
		concurrency, riverCooldown, riverPoll, riverConns)
}

func (*riverSystem) Servers() []string { return []string{"postgres"} }

func (s *riverSystem) pool(ctx context.Context) (*pgxpool.Pool, error) {
	c, err := pgxpool.ParseConfig(s.dsn)
	if err != nil {
		return nil, fmt.Errorf("reading the DSN: %w", err)
	}
	c.MaxConns = riverConns
	p, err := pgxpool.NewWithConfig(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("connecting to PostgreSQL: %w", err)
	}
	return p, nil
}

func (s *riverSystem) Reset(ctx context.Context) error {
	p, err := s.pool(ctx)
	if err != nil {
		return err
	}
	defer p.Close()
	m, err := rivermigrate.New(riverpgxv5.New(p), nil)
	if err != nil {
		return fmt.Errorf("preparing the schema: %w", err)
	}
	if _, err := m.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return fmt.Errorf("creating the schema: %w", err)
	}
	if _, err := p.Exec(ctx, "TRUNCATE river_job"); err != nil {
		return fmt.Errorf("deleting jobs: %w", err)
	}
	return nil
}

func (s *riverSystem) Add(ctx context.Context, jobs []Job) error {
	p, err := s.pool(ctx)
	if err != nil {
		return err
	}
	defer p.Close()
	c, err := river.NewClient(riverpgxv5.New(p), &river.Config{Logger: riverLog()})
	if err != nil {
		return fmt.Errorf("creating a client: %w", err)
	}
	for len(jobs) > 0 {
		n := min(len(jobs), riverBatch)
		params := make([]river.InsertManyParams, n)
		for i, j := range jobs[:n] {
			params[i] = river.InsertManyParams{
				Args:       j,
				InsertOpts: &river.InsertOpts{ScheduledAt: time.UnixMilli(j.DueMS)},
			}
		}
		if _, err := c.InsertManyFast(ctx, params); err != nil {
			return fmt.Errorf("inserting jobs: %w", err)
		}
		jobs = jobs[n:]
	}
	return nil
}

func (s *riverSystem) Work(ctx context.Context, do func(context.Context, Job) error) error {
	p, err := s.pool(ctx)
	if err != nil {
		return err
	}
	defer p.Close()
	workers := river.NewWorkers()
	river.AddWorker(workers, river.WorkFunc(func(ctx context.Context, j *river.Job[Job]) error {
		return do(ctx, j.Args)
	}))
	c, err := river.NewClient[pgx.Tx](riverpgxv5.New(p), &river.Config{
		Queues: map[string]river.QueueConfig{
			river.QueueDefault: {MaxWorkers: concurrency},
		},
		Workers:           workers,
		FetchCooldown:     riverCooldown,
		FetchPollInterval: riverPoll,
		Logger:            riverLog(),
	})
	if err != nil {
		return fmt.Errorf("creating a client: %w", err)
	}
	if err := c.Start(ctx); err != nil {
		return fmt.Errorf("starting River: %w", err)
	}
	<-ctx.Done()
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), riverStop)
	defer cancel()
	_ = c.Stop(end) // what it did not finish is counted as missing
	return nil
}

func riverLog() *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
}
