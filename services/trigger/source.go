package trigger

import (
	"context"
	"fmt"
	"sort"
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
	openedAt   time.Time              // when the window was last opened
	over       bool                   // the minute had ended at the load: nothing else is read
	loaded     []timer.Fire           // in order of run time, from after givenMS
	givenMS    int64                  // all run times up to here were returned
	addedMS    int64                  // window entries up to here were in the store at the load
	early      map[timer.FireID]int32 // returned ahead of their time, by revision
}

func newSource(s *Service, w window.Slice) *source {
	return &source{
		svc:     s,
		slice:   w,
		endMS:   (w.Minute+1)*timer.MinuteMS - 1,
		givenMS: -1,
		addedMS: -1,
		early:   make(map[timer.FireID]int32),
	}
}

// load reads the slice's open fires after givenMS. It opens the window first, so that entries lost
// later show as another generation. If the minute has ended, later additions are dispatched
// directly, and the window may have dropped the slice.
//
// An entry for a run time up to now plus the dispatch lead was committed before now (see
// [dispatch.Dispatcher.Committed]). If it is not loaded, it was claimed: the window keeps such
// entries, and a trigger that takes over a slice would publish those of the whole minute again.
func (s *source) load(ctx context.Context) error {
	now := s.svc.opts.Now()
	over := now.UnixMilli() > s.endMS
	if !over {
		s.open(ctx)
	}
	fires, err := s.readStore(ctx, s.givenMS, s.endMS)
	if err != nil {
		s.generation = ""
		return err
	}
	s.over = over
	s.addedMS = now.Add(s.svc.opts.DispatchLead).UnixMilli()
	s.svc.met.loads.Inc()
	s.loaded = s.withoutEarly(fires)
	return nil
}

// open reads the slice's generation from the window. Without one every poll reads the store.
func (s *source) open(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	s.generation, s.openedAt = "", time.Now()
	if generation, err := s.svc.opts.Window.Open(ctx, s.slice); err == nil {
		s.generation = generation
	} else {
		s.svc.met.windowUnavailable.Inc()
	}
}

// readStore reads fires with from < run time <= to from the store.
func (s *source) readStore(ctx context.Context, from, to int64) ([]timer.Fire, error) {
	ctx, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	var all []timer.Fire
	pos := store.After(from)
	for {
		page, err := s.svc.opts.Store.LoadSlice(
			ctx,
			s.slice.Minute,
			s.slice.Bucket,
			pos,
			to,
			loadPage,
		)
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
	if s.over {
		return nil, nil
	}
	if s.generation != "" {
		fires, generation, err := s.readWindow(ctx, upper)
		if err == nil && generation == s.generation {
			return fires, nil
		}
		switch {
		case err != nil:
			s.svc.met.windowUnavailable.Inc()
			s.openedAt = time.Now()
		case time.Since(s.openedAt) >= reopenEvery:
			s.svc.met.windowResets.Inc()
			return nil, s.load(ctx)
		default:
			s.svc.met.windowResets.Inc()
		}
		s.generation = ""
	}
	if time.Since(s.openedAt) >= reopenEvery {
		if s.open(ctx); s.generation != "" {
			return nil, s.load(ctx)
		}
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
