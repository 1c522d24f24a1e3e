package trigger

import (
	"context"
	"fmt"
	"sort"
	"sync"
	"time"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/libs/window"
)

const (
	loadPage    = 5000
	rangePage   = 5000
	loadTimeout = 10 * time.Second
	pollTimeout = time.Second
	reopenEvery = 2 * time.Second // between attempts to open an unavailable window

	// If the loaded fires of the next earlyLead are more than the task topics move within the
	// dispatch lead, they are published at once.
	publishRate = 15_000 // tasks per second through one trigger, at least
	earlyLead   = 10 * time.Second
)

// source reads the fires of a slice in order of run time, each time range once. It reads the store
// at the start, and again whenever the window was flushed; later additions come from the window. A
// fire that enters the window after its time range was read is dispatched directly, or found by
// executors.
type source struct {
	svc        *Service
	slice      window.Slice
	endMS      int64                  // last ms of the minute
	generation string                 // of the window at the load; empty: the window is unavailable
	openedAt   time.Time              // when the window was last opened, or a reload ended
	over       bool                   // the minute had ended at the load: nothing else is read
	loaded     []timer.Fire           // in order of run time, from after givenMS
	givenMS    int64                  // all run times up to here were returned
	addedMS    int64                  // window entries up to here were in the store at the load
	early      map[timer.FireID]int32 // returned ahead of their time, by revision

	reloading bool           // a reload is under way, or is to be taken
	reloaded  chan load      // capacity 1
	reloads   sync.WaitGroup // under way; they end with their context
}

func newSource(s *Service, w window.Slice) *source {
	return &source{
		svc:      s,
		slice:    w,
		endMS:    (w.Minute+1)*timer.MinuteMS - 1,
		givenMS:  -1,
		addedMS:  -1,
		early:    make(map[timer.FireID]int32),
		reloaded: make(chan load, 1),
	}
}

// load is what a load of a slice has read.
type load struct {
	generation string
	over       bool
	addedMS    int64
	fires      []timer.Fire
	err        error
}

// load reads the slice's open fires after givenMS.
func (s *source) load(ctx context.Context) error {
	s.openedAt = time.Now()
	l := s.read(ctx, s.givenMS, false)
	s.take(&l)
	return l.err
}

// read reads the slice's open fires after fromMS. It opens the window first, so that entries lost
// later show as another generation. If the minute has ended, later additions are dispatched
// directly, and the window may have dropped the slice.
//
// An entry for a run time up to now plus the dispatch lead was committed before now (see
// [dispatch.Dispatcher.Committed]). If it is not loaded, it was claimed: the window keeps such
// entries, and a trigger that takes over a slice would publish those of the whole minute again.
//
// Each page has a time of its own: a large slice takes long if the store is slow.
func (s *source) read(ctx context.Context, fromMS int64, needWindow bool) (l load) {
	now := s.svc.opts.Now()
	l.addedMS = now.Add(s.svc.opts.DispatchLead).UnixMilli()
	if l.over = now.UnixMilli() > s.endMS; !l.over {
		if l.generation, l.err = s.open(ctx); l.err != nil && needWindow {
			return l
		}
	}
	l.fires, l.err = s.readPages(ctx, fromMS, s.endMS)
	return l
}

// take goes on with what a load has read. Without a generation every poll reads the store.
func (s *source) take(l *load) {
	if s.generation = ""; l.err != nil {
		return
	}
	s.svc.met.loads.Inc()
	s.generation, s.over, s.addedMS = l.generation, l.over, l.addedMS
	given := sort.Search(
		len(l.fires), func(i int) bool { return l.fires[i].RunAtMS > s.givenMS },
	)
	s.loaded = s.withoutEarly(l.fires[given:])
}

// reload begins another load beside the polls, which read the store for what is added until it is
// taken: they do not wait for it, however large the slice. It loads nothing while the window is
// unavailable. What is returned meanwhile is left out when it is taken.
func (s *source) reload(ctx context.Context) {
	s.reloading = true
	from := s.givenMS
	s.reloads.Go(func() { s.reloaded <- s.read(ctx, from, true) })
}

// takeReload takes a reload that has ended. The next one begins reopenEvery later at the earliest,
// also if this one has failed.
func (s *source) takeReload() {
	select {
	case l := <-s.reloaded:
		s.reloading, s.openedAt = false, time.Now()
		s.take(&l)
	default:
	}
}

// open returns the slice's generation from the window.
func (s *source) open(ctx context.Context) (generation string, err error) {
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	if generation, err = s.svc.opts.Window.Open(ctx, s.slice); err != nil {
		s.svc.met.windowUnavailable.Inc()
		return "", err //nolint:wrapcheck // only counted
	}
	return generation, nil
}

// readStore reads fires with from < run time <= to from the store.
func (s *source) readStore(ctx context.Context, from, to int64) ([]timer.Fire, error) {
	ctx, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	return s.readPages(ctx, from, to)
}

// readPages is readStore with loadTimeout for each page.
func (s *source) readPages(ctx context.Context, from, to int64) (all []timer.Fire, err error) {
	pos := store.After(from)
	for {
		page, err := s.readPage(ctx, pos, to)
		if err != nil {
			return nil, fmt.Errorf("loading slice %d:%d: %w", s.slice.Minute, s.slice.Bucket, err)
		}
		all = append(all, page...)
		if len(page) < loadPage {
			return all, nil
		}
		last := &page[len(page)-1]
		pos = store.Position{RunAtMS: last.RunAtMS, FireID: last.FireID}
	}
}

func (s *source) readPage(
	ctx context.Context, after store.Position, to int64,
) ([]timer.Fire, error) {
	ctx, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	//nolint:wrapcheck // readPages wraps it
	return s.svc.opts.Store.LoadSlice(ctx, s.slice.Minute, s.slice.Bucket, after, to, loadPage)
}

// stillUnclaimed returns the fires that nobody has claimed, or all of them if the store does not
// answer.
func (s *source) stillUnclaimed(ctx context.Context, fires []timer.Fire) []timer.Fire {
	if len(fires) == 0 {
		return fires
	}
	from, to := fires[0].RunAtMS, fires[0].RunAtMS
	for i := range fires {
		from, to = min(from, fires[i].RunAtMS), max(to, fires[i].RunAtMS)
	}
	free, err := s.readStore(ctx, from-1, to)
	if err != nil {
		return fires
	}
	revs := make(map[timer.FireID]int32, len(free))
	for i := range free {
		revs[free[i].FireID] = free[i].Rev
	}
	var out []timer.Fire
	for i := range fires {
		if rev, ok := revs[fires[i].FireID]; ok && rev == fires[i].Rev {
			out = append(out, fires[i])
		}
	}
	return out
}

// next returns the fires to publish at nowMS. These are all fires not returned before with a run
// time up to now plus the dispatch lead, and those of [source.takeEarly]. The caller keeps what it
// cannot publish.
func (s *source) next(ctx context.Context, nowMS int64) ([]timer.Fire, error) {
	upper := min(nowMS+s.svc.opts.DispatchLead.Milliseconds(), s.endMS)
	if upper <= s.givenMS {
		return s.takeEarly(nowMS), nil
	}
	added, err := s.added(ctx, upper)
	if err != nil {
		return nil, err
	}
	n := sort.Search(len(s.loaded), func(i int) bool { return s.loaded[i].RunAtMS > upper })
	out := s.loaded[:n:n]
	s.loaded = s.loaded[n:]
	known := make(map[timer.FireID]int32, n)
	for i := range out {
		known[out[i].FireID] = out[i].Rev
	}
	for i := range added {
		if rev, ok := known[added[i].FireID]; !ok || rev != added[i].Rev {
			out = append(out, added[i])
		}
	}
	s.givenMS = upper
	out = s.withoutEarly(out)
	for i := range out {
		delete(s.early, out[i].FireID)
	}
	interleave(out)
	return append(out, s.takeEarly(nowMS)...), nil
}

// takeEarly returns the loaded fires of the next 10 s if they are more than can be published within
// the dispatch lead, whatever their apps.
func (s *source) takeEarly(nowMS int64) []timer.Fire {
	n := sort.Search(
		len(s.loaded),
		func(i int) bool { return s.loaded[i].RunAtMS > nowMS+earlyLead.Milliseconds() },
	)
	if float64(n) < publishRate*s.svc.opts.DispatchLead.Seconds() {
		return nil
	}
	out := append([]timer.Fire(nil), s.loaded[:n]...)
	s.loaded = s.loaded[n:]
	for i := range out {
		s.early[out[i].FireID] = out[i].Rev
	}
	interleave(out)
	return out
}

// added returns fires added after the load, with givenMS < run time <= upper: from the window, or
// from the store while the window is unavailable. A window that was flushed or has recovered is
// used again after another load. One that has lost the slice soon after it was opened counts as
// unavailable: it may evict what it gets, and each poll would load the slice.
func (s *source) added(ctx context.Context, upper int64) ([]timer.Fire, error) {
	s.takeReload()
	if s.over {
		return nil, nil
	}
	if s.generation != "" {
		fires, generation, err := s.readWindow(ctx, upper)
		if err == nil && generation == s.generation {
			return fires, nil
		}
		if err != nil {
			s.svc.met.windowUnavailable.Inc()
			s.openedAt = time.Now()
		} else {
			s.svc.met.windowResets.Inc()
		}
		s.generation = ""
	}
	if !s.reloading && time.Since(s.openedAt) >= reopenEvery {
		s.reload(ctx)
	}
	return s.readStore(ctx, s.givenMS, upper)
}

func (s *source) readWindow(
	ctx context.Context,
	upper int64,
) (fires []timer.Fire, generation string, err error) {
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	from := min(max(s.givenMS, s.addedMS), upper)
	for {
		page, err := s.svc.opts.Window.Range(ctx, s.slice, from, upper, rangePage)
		if err != nil {
			return nil, "", err //nolint:wrapcheck // only counted
		}
		fires, generation = append(fires, page.Fires...), page.Generation
		if !page.More || len(page.Fires) == 0 {
			return fires, generation, nil
		}
		from = page.Fires[len(page.Fires)-1].RunAtMS
	}
}

// withoutEarly removes the fires that were returned early.
func (s *source) withoutEarly(fires []timer.Fire) []timer.Fire {
	if len(s.early) == 0 {
		return fires
	}
	out := fires[:0:0]
	for i := range fires {
		if rev, ok := s.early[fires[i].FireID]; !ok || rev != fires[i].Rev {
			out = append(out, fires[i])
		}
	}
	return out
}
