package peers_test

import (
	"context"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/e2e/load"
	"github.com/carillon-timer/carillon/e2e/peers"
	"github.com/carillon-timer/carillon/e2e/receiver"
)

// fake is a system that makes the calls itself: the first one twice, the second one not at all, and
// the third one half a second early.
type fake struct {
	mu    sync.Mutex
	calls []peers.Job
}

func (*fake) Name() string                { return "fake" }
func (*fake) Settings() string            { return "" }
func (*fake) Servers() []string           { return nil }
func (*fake) Reset(context.Context) error { return nil }

func (f *fake) Add(_ context.Context, jobs []peers.Job) error {
	c := peers.NewCaller()
	f.mu.Lock()
	f.calls = append(f.calls, jobs...)
	f.mu.Unlock()
	for i, j := range jobs {
		at := time.UnixMilli(j.DueMS)
		switch i {
		case 1:
			continue
		case 2:
			at = at.Add(-500 * time.Millisecond)
		}
		time.AfterFunc(time.Until(at), func() {
			_ = c.Call(context.Background(), j)
			if i == 0 {
				_ = c.Call(context.Background(), j)
			}
		})
	}
	return nil
}

func (*fake) Work(ctx context.Context, _ func(context.Context, peers.Job) error) error {
	<-ctx.Done()
	return nil
}

func TestWhatASystemDoesWrongIsCounted(t *testing.T) {
	t.Parallel()
	rcv, err := receiver.Start(t.Context(), "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, rcv.Close()) })
	b := peers.Bench{
		Receiver: rcv,
		Worker: func(ctx context.Context, _ peers.System) *exec.Cmd {
			return exec.CommandContext(ctx, "sleep", "600")
		},
		Log: t.Logf,
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r, err := b.Run(ctx, new(fake), 20, time.Second)
	require.NoError(t, err)
	require.Equal(t, 20, r.Fires)
	require.Equal(t, 1, r.Missing)
	require.Equal(t, 1, r.Duplicates)
	require.Equal(t, 1, r.Early)
	require.Less(t, r.RateReached, 25.0)
	rows := strings.Split(peers.Table([]load.Result{r}), "\n")
	require.Contains(t, rows[2], "| fake | 20/s |")
	require.Contains(t, rows[2], "| no |", "one is missing")
}
