package bench

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/services/cli/internal/client"
)

// shelf is an API that only knows timers.
type shelf struct {
	mu      sync.Mutex
	timers  map[string]string // names by id
	made    int
	batches int
	batch   func(n int, w http.ResponseWriter) bool // before the n-th answer; false: it is not sent
	refused int                                     // deletes that are still answered by 503
}

func (s *shelf) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch r.Method {
	case http.MethodPost:
		var in struct{ Items []struct{ Name string } }
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		type item struct {
			ID string `json:"id"`
		}
		var out struct {
			Items []item `json:"items"`
		}
		for _, it := range in.Items {
			s.made++
			id := strconv.Itoa(s.made)
			s.timers[id] = it.Name
			out.Items = append(out.Items, item{id})
		}
		if s.batches++; s.batch == nil || s.batch(s.batches, w) {
			_ = json.NewEncoder(w).Encode(out)
		}
	case http.MethodDelete:
		if s.refused > 0 {
			s.refused--
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		delete(s.timers, r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:])
		w.WriteHeader(http.StatusNoContent)
	default:
		items := []map[string]string{}
		for id, name := range s.timers {
			if strings.HasPrefix(name, r.URL.Query().Get("name_prefix")) {
				items = append(items, map[string]string{"id": id})
			}
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"items": items, "next_cursor": ""})
	}
}

// slowFirst is a shelf that the first request reaches last: after a list, or after a while.
type slowFirst struct {
	*shelf
	began  atomic.Bool
	first  sync.Once
	listed chan struct{}
}

func (s *slowFirst) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.began.CompareAndSwap(false, true) {
		select {
		case <-s.listed:
		case <-time.After(300 * time.Millisecond):
		}
	}
	s.shelf.ServeHTTP(w, r)
	if r.Method == http.MethodGet {
		s.first.Do(func() { close(s.listed) })
	}
}

type silentSource struct{ Source }

func (silentSource) URL() string                 { return "http://127.0.0.1:1" }
func (silentSource) Reset(context.Context) error { return nil }

// TestRefusedDeletesAreRepeated checks that no timer is left after a refusal that passes, and that
// a bench says how to delete those which are left after others.
func TestRefusedDeletesAreRepeated(t *testing.T) {
	t.Parallel()
	for refused, left := range map[int]int{1: 0, createTries: 1} {
		api := &shelf{timers: map[string]string{}, refused: refused}
		server := httptest.NewServer(api)
		defer server.Close()
		c := client.New(server.URL, "", http.DefaultTransport)
		defer c.Close()
		b := New(Options{
			API: c, App: "bench", Receiver: silentSource{}, Connections: 1, Batch: 10,
			Progress: io.Discard,
		})
		b.creates = 1000
		r, err := b.Run(t.Context(), Phase{Kind: Long, N: 20})
		require.NoError(t, err)
		require.Len(t, api.timers, left)
		if left == 0 {
			require.Empty(t, r.CleanUpFail)
			continue
		}
		require.Contains(t, r.CleanUpFail, "503")
		for _, name := range api.timers {
			_, prefix, _ := strings.Cut(r.CleanUpFail, "timer delete --app bench --name-prefix ")
			require.True(t, strings.HasPrefix(name, strings.Fields(prefix)[0]), r.CleanUpFail)
		}
	}
}

// TestInterruptedBenchNamesWhatIsLeft: the error of an interruption is told apart from the one that says
// how to delete what is left.
func TestInterruptedBenchNamesWhatIsLeft(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	api := &shelf{timers: map[string]string{}, refused: createTries}
	api.batch = func(int, http.ResponseWriter) bool { cancel(); return true }
	server := httptest.NewServer(api)
	defer server.Close()
	c := client.New(server.URL, "", http.DefaultTransport)
	defer c.Close()
	b := New(Options{
		API: c, App: "bench", Receiver: silentSource{}, Connections: 1, Batch: 10,
		Progress: io.Discard,
	})
	b.creates = 1000
	_, err := b.Run(ctx, Phase{Kind: Long, N: 20})
	require.ErrorIs(t, err, context.Canceled)
	var left *LeftError
	require.ErrorAs(t, err, &left)
	require.Contains(t, left.Error(), "timer delete --app bench --name-prefix ")
}

// TestBrokenCreationIsCleanedUp interrupts a phase, or refuses a request of it, while it creates
// timers, some of whose ids it never learns, and one request of which takes long. It must delete them
// all, and no others.
func TestBrokenCreationIsCleanedUp(t *testing.T) {
	t.Parallel()
	for name, last := range map[string]func(w http.ResponseWriter, cancel func()) bool{
		"interrupted": func(_ http.ResponseWriter, cancel func()) bool { cancel(); return false },
		"refused": func(w http.ResponseWriter, _ func()) bool {
			w.WriteHeader(http.StatusUnprocessableEntity)
			return false
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			api := &shelf{timers: map[string]string{"other": "bench-of-another"}}
			api.batch = func(n int, w http.ResponseWriter) bool { return n < 4 || last(w, cancel) }
			server := httptest.NewServer(&slowFirst{shelf: api, listed: make(chan struct{})})
			defer server.Close()
			c := client.New(server.URL, "", http.DefaultTransport)
			defer c.Close()
			b := New(Options{
				API: c, App: "bench", Receiver: silentSource{}, Connections: 2, Batch: 10,
				Settle: time.Second, Progress: io.Discard,
			})
			b.creates = 1000
			_, err := b.Run(ctx, Phase{Kind: Long, N: 1000})
			require.Error(t, err)
			require.GreaterOrEqual(t, api.made, 40)
			require.Equal(t, map[string]string{"other": "bench-of-another"}, api.timers)
		})
	}
}
