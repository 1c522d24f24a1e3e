package peers

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/hibiken/asynq"
	"golang.org/x/sync/errgroup"
)

// asynqClients is how many connections add jobs: asynq adds them one by one.
const asynqClients = 32

type asynqSystem struct{ redis asynq.RedisClientOpt }

// Asynq returns asynq on a Redis.
func Asynq(addr string) System {
	return &asynqSystem{asynq.RedisClientOpt{Addr: addr, PoolSize: 2 * asynqClients}}
}

func (*asynqSystem) Name() string { return "asynq " + version("github.com/hibiken/asynq") }

func (*asynqSystem) Settings() string {
	return fmt.Sprintf("Concurrency %d, DelayedTaskCheckInterval %v, TaskCheckInterval %v",
		concurrency, asynqChecks, asynqChecks)
}

func (*asynqSystem) Servers() []string { return []string{"redis-server"} }

// asynqChecks is how often asynq looks for due jobs. Its default is 5 s, for which it is very late.
const asynqChecks = 100 * time.Millisecond

func (s *asynqSystem) Reset(context.Context) error {
	i := asynq.NewInspector(s.redis)
	defer i.Close()
	queues, err := i.Queues()
	if err != nil {
		return fmt.Errorf("listing queues: %w", err)
	}
	for _, q := range queues {
		if err := i.DeleteQueue(q, true); err != nil {
			return fmt.Errorf("deleting queue %s: %w", q, err)
		}
	}
	return nil
}

func (s *asynqSystem) Add(ctx context.Context, jobs []Job) error {
	c := asynq.NewClient(s.redis)
	defer c.Close()
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(asynqClients)
	for _, j := range jobs {
		g.Go(func() error {
			payload, err := json.Marshal(j)
			if err != nil {
				return fmt.Errorf("encoding a job: %w", err)
			}
			_, err = c.EnqueueContext(
				ctx,
				asynq.NewTask(j.Kind(), payload),
				asynq.ProcessAt(time.UnixMilli(j.DueMS)),
			)
			return err //nolint:wrapcheck // it says what failed
		})
	}
	return g.Wait() //nolint:wrapcheck // of the calls above
}

func (s *asynqSystem) Work(ctx context.Context, do func(context.Context, Job) error) error {
	srv := asynq.NewServer(s.redis, asynq.Config{
		Concurrency:              concurrency,
		DelayedTaskCheckInterval: asynqChecks,
		TaskCheckInterval:        asynqChecks,
		LogLevel:                 asynq.ErrorLevel,
	})
	stop := sync.OnceFunc(srv.Shutdown)
	defer stop()
	err := srv.Start(asynq.HandlerFunc(func(ctx context.Context, t *asynq.Task) error {
		var j Job
		if err := json.Unmarshal(t.Payload(), &j); err != nil {
			return fmt.Errorf("decoding a job: %w", err)
		}
		return do(ctx, j)
	}))
	if err != nil {
		return fmt.Errorf("starting asynq: %w", err)
	}
	<-ctx.Done()
	return nil
}
