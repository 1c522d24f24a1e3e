package memwindow

import (
	"context"
	"crypto/rand"
	"slices"
	"sync"
	"time"

	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/libs/window"
)

// DefaultMaxEntries takes about 60 MB.
const DefaultMaxEntries = 500_000

// Options configure a window.
type Options struct {
	Now func() time.Time // default time.Now
	// MaxEntries is how many entries are kept before slices are dropped. One Put may exceed it. The
	// default is DefaultMaxEntries.
	MaxEntries int
	Faults     *Faults // nil means none
}

// Window is an embedded window. It is safe for concurrent use.
type Window struct {
	now        func() time.Time
	maxEntries int
	faults     *faults

	mu          sync.Mutex
	slices      map[window.Slice]*entries
	count       int   // entries in all slices
	lastSweep   int64 // the minute of the last sweep
	unavailable bool
}

var _ window.Window = (*Window)(nil)

// New returns an empty window.
func New(o Options) *Window {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.MaxEntries <= 0 {
		o.MaxEntries = DefaultMaxEntries
	}
	return &Window{
		now:        o.Now,
		maxEntries: o.MaxEntries,
		faults:     newFaults(o.Faults),
		slices:     make(map[window.Slice]*entries),
	}
}

// Put implements window.Window.
func (w *Window) Put(ctx context.Context, fires []timer.Fire) error {
	return w.call(ctx, func() {
		w.sweep()
		w.makeRoom(len(fires))
		for i := range fires {
			if w.faults.lose() {
				continue
			}
			s := window.SliceOf(&fires[i])
			if w.expired(s) {
				continue
			}
			m := w.at(s)
			w.count -= m.len()
			m.put(fires[i])
			w.count += m.len()
		}
	})
}

// Open implements window.Window.
func (w *Window) Open(ctx context.Context, s window.Slice) (string, error) {
	var generation string
	err := w.call(ctx, func() {
		w.sweep()
		if w.expired(s) {
			generation = rand.Text() // expired as soon as it is created
			return
		}
		m := w.at(s)
		if m.generation == "" {
			m.generation = rand.Text()
		}
		generation = m.generation
	})
	return generation, err
}

// Range implements window.Window.
func (w *Window) Range(
	ctx context.Context,
	s window.Slice,
	fromMS, toMS int64,
	limit int,
) (window.Page, error) {
	var page window.Page
	err := w.call(ctx, func() {
		m := w.slices[s]
		if m == nil || w.expired(s) {
			return
		}
		w.count -= m.len()
		m.merge()
		w.count += m.len()
		page = m.page(fromMS, toMS, limit)
	})
	return page, err
}

// Drop implements window.Window.
func (w *Window) Drop(ctx context.Context, s window.Slice) error {
	return w.call(ctx, func() { w.drop(s) })
}

// Ping implements window.Window.
func (w *Window) Ping(ctx context.Context) error { return w.call(ctx, func() {}) }

// Close implements window.Window.
func (w *Window) Close() error { return nil }

// Flush removes all entries, like a restart of Redis without persistence.
func (w *Window) Flush() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.flush()
}

// SetUnavailable makes every call fail until it is called with false. Entries are kept.
func (w *Window) SetUnavailable(unavailable bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.unavailable = unavailable
}

func (w *Window) flush() {
	clear(w.slices)
	w.count = 0
}

func (w *Window) at(s window.Slice) *entries {
	m := w.slices[s]
	if m == nil {
		m = new(entries)
		w.slices[s] = m
	}
	return m
}

func (w *Window) drop(s window.Slice) {
	if m := w.slices[s]; m != nil {
		w.count -= m.len()
		delete(w.slices, s)
	}
}

func (w *Window) expired(s window.Slice) bool {
	return w.now().UnixMilli() >= (s.Minute+1)*timer.MinuteMS+window.TTL.Milliseconds()
}

// sweep drops expired slices, at most once a minute.
func (w *Window) sweep() {
	minute := timer.MinuteOf(w.now().UnixMilli())
	if minute == w.lastSweep {
		return
	}
	w.lastSweep = minute
	for s := range w.slices {
		if w.expired(s) {
			w.drop(s)
		}
	}
}

// makeRoom drops slices until the given number of new entries fits.
func (w *Window) makeRoom(more int) {
	if w.count+more <= w.maxEntries {
		return
	}
	candidates := make([]window.Slice, 0, len(w.slices))
	for s := range w.slices {
		candidates = append(candidates, s)
	}
	slices.SortFunc(candidates, func(a, b window.Slice) int {
		if aOpen, bOpen := w.slices[a].generation != "", w.slices[b].generation != ""; aOpen != bOpen {
			if bOpen {
				return -1
			}
			return 1
		}
		return int(b.Minute - a.Minute)
	})
	// Free a tenth more than needed, so that a full window does not sort its slices at every Put.
	for _, s := range candidates {
		if w.count+more <= w.maxEntries-w.maxEntries/10 {
			return
		}
		w.drop(s)
	}
}
