package api_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/carillon-timer/carillon/libs/bus"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	carillonv1 "github.com/carillon-timer/carillon/proto/gen/carillon/v1"
	"github.com/carillon-timer/carillon/services/api"
	"github.com/carillon-timer/carillon/services/api/auth"
	"github.com/carillon-timer/carillon/services/servicetest/apitest"
)

func TestOptionsNameWhatIsMissing(t *testing.T) {
	t.Parallel()
	_, err := api.New(api.Options{Zone: "Nowhere"})
	for _, name := range []string{"Store", "Bus", "Dispatch", "Plan", "Now", "Registerer", "Zone"} {
		require.ErrorContains(t, err, "api: "+name)
	}
}

// slowCreates counts transactions, and blocks the first until it is released.
type slowCreates struct {
	api.Store

	mu    sync.Mutex
	calls []int
}

func (s *slowCreates) Create(
	ctx context.Context,
	items []store.NewTimer,
	plan store.Planner,
) ([]store.CreateResult, error) {
	s.mu.Lock()
	s.calls = append(s.calls, len(items))
	s.mu.Unlock()
	return s.Store.Create(ctx, items, plan)
}

func TestConcurrentCreatesShareTransactions(t *testing.T) {
	t.Parallel()
	counted := &slowCreates{}
	f := apitest.Setup(t, func(o *api.Options) {
		counted.Store = o.Store
		o.Store, o.GroupWait, o.GroupsInFlight = counted, 50*time.Millisecond, 1
	})
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			name := i
			status := 201
			if i >= 40 { // the same name with another definition: only these are refused
				name = 0
			}
			body := strings.NewReplacer(`"bill"`, fmt.Sprintf(`"bill-%d"`, name), "0 0 9", fmt.Sprintf("0 %d 9", i)).
				Replace(apitest.V2Body)
			got := f.Call(t, http.MethodPost, "/api/v2/timers", body, nil).Status
			if name == 0 {
				return // one of eleven succeeds
			}
			if got != status {
				t.Errorf("create %d answered %d", i, got)
			}
		})
	}
	wg.Wait()
	all, err := f.Store.List(t.Context(), store.Query{App: "shop", Limit: 100})
	require.NoError(t, err)
	require.Len(t, all, 40)
	counted.mu.Lock()
	defer counted.mu.Unlock()
	require.Less(t, len(counted.calls), 25, "transactions for 50 requests: %v", counted.calls)
}

func TestChangeNotificationsArePublished(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	heard := make(chan *carillonv1.TimerChanged, 10)
	listener := f.Broker.Bus("executor")
	_, err := listener.Broadcast(
		t.Context(),
		bus.TimersChanged,
		func(_ context.Context, m bus.Message) {
			c := &carillonv1.TimerChanged{}
			if proto.Unmarshal(m.Payload, c) == nil && m.Key == fmt.Sprint(c.GetTimerId()) {
				heard <- c
			}
		},
	)
	require.NoError(t, err)
	got := f.Create(t, 201, apitest.V2Body)
	path := "/api/v2/timers/" + got.ID + "?app=shop"
	require.Equal(t, 200, f.Call(t, http.MethodPatch, path, `{"status":"active"}`, nil).Status)
	first := <-heard
	require.Equal(t, got.ID, fmt.Sprint(first.GetTimerId()))
	// This changes nothing.
	require.Equal(t, 200, f.Call(t, http.MethodPatch, path, `{"status":"active"}`, nil).Status)
	require.Equal(t, 204, f.Call(t, http.MethodDelete, path, "", nil).Status)
	require.Greater(t, (<-heard).GetSeq(), first.GetSeq())
	require.Empty(t, heard)
}

func TestUnavailableBrokerIsNoError(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	f.Broker.Pause()
	t.Cleanup(f.Broker.Resume)
	got := f.Create(t, 201, apitest.V2Body)
	path := "/api/v2/timers/" + got.ID + "?app=shop"
	status := "inactive"
	apitest.Quick(t, time.Second, "no request waits for the broker", func() {
		status = map[string]string{"active": "inactive", "inactive": "active"}[status]
		require.Equal(
			t,
			200,
			f.Call(t, http.MethodPatch, path, `{"status":"`+status+`"}`, nil).Status,
		)
	})
}

func TestKeys(t *testing.T) {
	t.Parallel()
	sum := sha256.Sum256([]byte("desk-key"))
	file := filepath.Join(t.TempDir(), "keys")
	text := "\ufeff# keys\n\nshop:shop-key\nshop:second\ndesk:sha256:" + hex.EncodeToString(
		sum[:],
	) + "\n"
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	keys, err := auth.LoadKeys(file)
	require.NoError(t, err)
	f := apitest.Setup(t, func(o *api.Options) { o.Auth = auth.Rules{Keys: keys} })

	bearer := func(key string) map[string]string { return map[string]string{"Authorization": "Bearer " + key} }
	for _, c := range []struct {
		method, path, body string
		header             map[string]string
		status             int
	}{
		{"POST", "/api/v2/timers", apitest.V2Body, nil, 401},
		{"POST", "/api/v2/timers", apitest.V2Body, bearer("guess"), 401},
		{"POST", "/api/v2/timers", apitest.V2Body, bearer(""), 401},
		{"POST", "/api/v2/timers", apitest.V2Body, bearer("desk-key"), 404},
		{"POST", "/api/v2/timers", apitest.V2Body, bearer("shop-key"), 201},
		{"POST", "/api/v2/timers", apitest.V2Body, bearer("second"), 200},
		{"GET", "/api/v2/timers?app=shop", "", bearer("desk-key"), 404},
		{"GET", "/api/v2/timers?app=desk", "", bearer("desk-key"), 200},
		{"GET", "/api/v2/timers/1/fires?app=shop", "", bearer("desk-key"), 404},
		{"GET", "/api/v2/fires/1-2?app=shop", "", bearer("desk-key"), 404},
		{"DELETE", "/api/v2/timers/1?app=shop", "", bearer("desk-key"), 404},
		{"POST", "/api/timer/v1/def", apitest.V1Body, nil, 401},
		{"POST", "/api/timer/v1/def", apitest.V1Body, bearer("desk-key"), 404},
		{"POST", "/api/timer/v1/enable", `{"id":1,"app":"shop"}`, bearer("desk-key"), 404},
		{"GET", "/api/timer/v1/def?id=1&app=shop", "", bearer("desk-key"), 404},
		{"GET", "/api/v2/openapi.json", "", nil, 200},
	} {
		require.Equal(t, c.status, f.Call(t, c.method, c.path, c.body, c.header).Status, "%v", c)
	}

	for _, bad := range []string{"shop", "shop:", ":x", "shop:sha256:12", "a:same\nb:same", "shop: key", "shop:a b", "shop:clé"} {
		require.NoError(t, os.WriteFile(file, []byte(bad), 0o600))
		_, err := auth.LoadKeys(file)
		require.Error(t, err, bad)
	}
	_, err = auth.LoadKeys(file + ".none")
	require.Error(t, err)
}

// panicking is a store that panics.
type panicking struct{ api.Store }

func (panicking) Timer(context.Context, string, timer.ID) (timer.Timer, error) { panic("a bug") }

func TestPanicIsAnInternalError(t *testing.T) {
	t.Parallel()
	r := prometheus.NewRegistry()
	f := apitest.Setup(t, func(o *api.Options) { o.Store, o.Registerer = panicking{o.Store}, r })
	f.Problem(t, 500, http.MethodGet, "/api/v2/timers/1?app=a", "")
	n, err := testutil.GatherAndCount(r, "carillon_api_requests_total")
	require.NoError(t, err)
	require.Equal(t, 1, n)
}

func TestTooManyAtOnce(t *testing.T) {
	t.Parallel()
	hold, entered := make(chan struct{}), make(chan struct{})
	f := apitest.Setup(
		t,
		func(o *api.Options) { o.Store, o.MaxInFlight = holding{o.Store, entered, hold}, 1 },
	)
	var wg sync.WaitGroup
	wg.Go(func() { f.Call(t, http.MethodGet, "/api/v2/timers/1?app=a", "", nil) })
	select {
	case <-entered:
	case <-time.After(10 * time.Second):
		require.FailNow(t, "the first request did not reach the store")
	}
	a := f.Call(t, http.MethodGet, "/api/v2/timers/1?app=a", "", nil)
	require.Equal(t, 503, a.Status)
	require.NotEmpty(t, a.Header.Get("Retry-After"))
	close(hold)
	wg.Wait()
}

// holding is a store that blocks.
type holding struct {
	api.Store

	entered, hold chan struct{}
}

func (h holding) Timer(context.Context, string, timer.ID) (timer.Timer, error) {
	close(h.entered)
	<-h.hold
	return timer.Timer{}, timer.NotFound("timer", 1)
}

// doubtful loses the answer to every commit of new timers.
type doubtful struct{ api.Store }

func (d doubtful) Create(
	ctx context.Context,
	items []store.NewTimer,
	plan store.Planner,
) ([]store.CreateResult, error) {
	out, err := d.Store.Create(ctx, items, plan)
	if err == nil {
		err = timer.Unavailable("creating timers", errors.New("the answer is lost"))
	}
	return out, err
}

// TestCommitInDoubtIsDispatched checks that fires of a commit in doubt are dispatched, while the
// client is told to repeat.
func TestCommitInDoubtIsDispatched(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t, func(o *api.Options) { o.Store = doubtful{o.Store} })
	body := strings.NewReplacer(`"name"`, `"status":"active","name"`, "0 0 9", "* * *").
		Replace(apitest.V2Body)
	require.Equal(
		t,
		http.StatusServiceUnavailable,
		f.Call(t, http.MethodPost, "/api/v2/timers", body, nil).Status,
	)
	f.Dispatched.Mu.Lock()
	defer f.Dispatched.Mu.Unlock()
	require.NotEmpty(t, f.Dispatched.Fires)
}
