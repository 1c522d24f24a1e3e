package load_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/e2e/client"
	"github.com/carillon-timer/carillon/e2e/cluster"
	"github.com/carillon-timer/carillon/e2e/load"
	"github.com/carillon-timer/carillon/e2e/receiver"
	"github.com/carillon-timer/carillon/libs/timer"
)

func TestParsePhases(t *testing.T) {
	t.Parallel()
	got, err := load.ParsePhases("rate:6000:30s, cron:20:2s,burst:100000,stored:5,kill:9:1s")
	require.NoError(t, err)
	require.Equal(
		t,
		[]load.Phase{
			{load.Steady, 6000, 30 * time.Second},
			{load.Crons, 20, 2 * time.Second},
			{Kind: load.Burst, Rate: 100000},
			{Kind: load.Stored, Rate: 5},
			{load.Kill, 9, time.Second},
		},
		got,
	)
	for _, bad := range []string{"", "rate:1", "burst:0", "burst:1:1s", "cron:x:1s", "rate:1:1ms", "wave:1:1s", "stored:1:1s", "kill:1"} {
		_, err := load.ParsePhases(bad)
		require.Error(t, err, bad)
	}
}

// fakeCluster is a fake API that calls each one-shot at its instant, with the defect that the test
// sets.
type fakeCluster struct {
	cluster.Cluster
	srv    *httptest.Server
	calls  sync.WaitGroup
	nextID atomic.Int64
	defect func(n int64) (early time.Duration, times int)
}

func (f *fakeCluster) Name() string                         { return "fake" }
func (f *fakeCluster) API() string                          { return f.srv.URL }
func (f *fakeCluster) Processes() []*cluster.Process        { return nil }
func (f *fakeCluster) Role(cluster.Role) []*cluster.Process { return nil }
func (f *fakeCluster) Servers() *cluster.Servers            { return nil }

func (f *fakeCluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body struct {
		client.NewTimer

		Items []client.NewTimer `json:"items"`
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	w.WriteHeader(http.StatusCreated)
	if r.URL.Path == "/api/v2/timers" {
		fmt.Fprintf(w, `{"id":"%d"}`, f.create(&body.NewTimer))
		return
	}
	ids := make([]string, len(body.Items))
	for i := range body.Items {
		ids[i] = fmt.Sprintf(`{"id":"%d"}`, f.create(&body.Items[i]))
	}
	fmt.Fprintf(w, `{"items":[%s]}`, strings.Join(ids, ","))
}

func (f *fakeCluster) create(n *client.NewTimer) (id int64) {
	at, err := time.Parse(time.RFC3339Nano, n.Schedule.At)
	if err != nil {
		return 0
	}
	id = f.nextID.Add(1)
	early, times := f.defect(id)
	for range times {
		f.calls.Add(1)
		time.AfterFunc(time.Until(at)-early, func() {
			defer f.calls.Done()
			q, _ := http.NewRequest(http.MethodPost, n.Target.URL, nil)
			q.Header.Set(
				"Carillon-Fire-Id",
				timer.FireID{Timer: timer.ID(id), DueMS: at.UnixMilli()}.String(),
			)
			q.Header.Set("Carillon-Attempt", "1")
			q.Header.Set("Carillon-Start", time.Now().UTC().Format(time.RFC3339Nano))
			if resp, err := f.srv.Client().Do(q); err == nil {
				_ = resp.Body.Close()
			}
		})
	}
	return id
}

func bench(
	t *testing.T, p load.Phase, batch int, defect func(int64) (time.Duration, int),
) load.Result {
	t.Helper()
	f := &fakeCluster{defect: defect}
	f.srv = httptest.NewServer(f)
	rcv, err := receiver.Start(t.Context(), "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() {
		f.calls.Wait()
		f.srv.Close()
		require.NoError(t, rcv.Close())
	})
	b := load.NewBench(f, rcv, 4, batch, io.Discard)
	r, err := b.Run(t.Context(), p)
	require.NoError(t, err)
	require.Contains(t, load.Markdown([]load.Result{r}), "| fake | "+p.String())
	return r
}

func good(int64) (time.Duration, int) { return 0, 1 }

func TestMeasuresARate(t *testing.T) {
	t.Parallel()
	began := time.Now()
	r := bench(t, load.Phase{Kind: load.Steady, Rate: 100, Length: 2 * time.Second}, 1, good)
	require.True(t, r.OK(), "%v", r.Faults)
	require.Equal(t, 200, r.Fires)
	require.InDelta(t, 200/r.Drained.Seconds(), r.RateReached, 0.01)
	require.Greater(t, r.Drained, 1900*time.Millisecond, "the last is due 10 ms before the end")
	require.Less(t, r.Drained, time.Since(began))
	require.Equal(t, 200, r.Lateness.N)
	require.Positive(t, r.CreateRate)
	require.NotEmpty(t, r.Samples)
	require.Positive(t, r.Busy)
}

func TestStoredTimersAreNotDue(t *testing.T) {
	t.Parallel()
	r := bench(
		t,
		load.Phase{Kind: load.Stored, Rate: 20},
		7,
		func(int64) (time.Duration, int) { return 0, 0 },
	)
	require.True(t, r.OK())
	require.Zero(t, r.Fires)
	require.Positive(t, r.CreateRate)
}

func TestCatchesEarlyAndRepeated(t *testing.T) {
	t.Parallel()
	r := bench(t, load.Phase{Kind: load.Burst, Rate: 50}, 7, func(n int64) (time.Duration, int) {
		switch n {
		case 7:
			return 500 * time.Millisecond, 1
		case 8:
			return 0, 2
		}
		return 0, 1
	})
	require.False(t, r.OK())
	require.Equal(t, 1, r.Early)
	require.Equal(t, 1, r.Duplicates)
	require.Zero(t, r.Missing)
}
