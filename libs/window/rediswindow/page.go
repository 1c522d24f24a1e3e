package rediswindow

import (
	"context"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/carillon-timer/carillon/libs/taskwire"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/libs/window"
)

const generationScore = "-inf"

// Range implements window.Window. It takes one round trip, or two if the limit splits an instant.
// One transaction reads entries and generation. So if the slice is lost in between, a reader cannot
// see the old generation without its entries.
func (w *Window) Range(
	ctx context.Context,
	s window.Slice,
	fromMS, toMS int64,
	limit int,
) (window.Page, error) {
	ctx, cancel := context.WithTimeout(ctx, w.timeout)
	defer cancel()
	limit = max(limit, 1)
	key := w.key(s)
	var entries, generation *redis.StringSliceCmd
	_, err := w.client.TxPipelined(ctx, func(p redis.Pipeliner) error {
		entries = p.ZRangeByScore(
			ctx,
			key,
			&redis.ZRangeBy{Min: after(fromMS), Max: at(toMS), Count: int64(limit) + 1},
		)
		generation = p.ZRangeByScore(
			ctx,
			key,
			&redis.ZRangeBy{Min: generationScore, Max: generationScore, Count: 1},
		)
		return nil
	})
	if err != nil {
		return window.Page{}, timer.Unavailable("reading a slice in Redis", err)
	}
	fires := w.decode(key, entries.Val())
	page := window.Page{Generation: first(generation.Val()), Fires: dedupe(fires)}
	if len(entries.Val()) <= limit || len(fires) == 0 {
		return page, nil
	}
	last := fires[len(fires)-1].RunAtMS
	if n := len(page.Fires); n > 1 && page.Fires[n-2].RunAtMS < last {
		// The last entry begins a new instant. It proves that the earlier instants are complete,
		// and moves to the next page.
		page.Fires, page.More = page.Fires[:n-1], true
		return page, nil
	}
	return w.complete(ctx, key, page, last, toMS)
}

// complete reads all entries of the last instant, and whether more follow.
func (w *Window) complete(
	ctx context.Context,
	key string,
	page window.Page,
	lastMS, toMS int64,
) (window.Page, error) {
	var entries, generation *redis.StringSliceCmd
	var rest *redis.IntCmd
	_, err := w.client.TxPipelined(ctx, func(p redis.Pipeliner) error {
		entries = p.ZRangeByScore(ctx, key, &redis.ZRangeBy{Min: at(lastMS), Max: at(lastMS)})
		rest = p.ZCount(ctx, key, after(lastMS), at(toMS))
		generation = p.ZRangeByScore(
			ctx,
			key,
			&redis.ZRangeBy{Min: generationScore, Max: generationScore, Count: 1},
		)
		return nil
	})
	if err != nil {
		return window.Page{}, timer.Unavailable("reading a slice in Redis", err)
	}
	n := len(page.Fires)
	for n > 0 && page.Fires[n-1].RunAtMS == lastMS {
		n--
	}
	return window.Page{
		// the generation of the later read: a slice that was lost between the reads must not look
		// complete
		Generation: first(generation.Val()),
		Fires:      append(page.Fires[:n], dedupe(w.decode(key, entries.Val()))...),
		More:       rest.Val() > 0,
	}, nil
}

// decode decodes entries. It leaves out unreadable ones: their fires are in the store, and the
// poll for overdue fires finds them.
func (w *Window) decode(key string, entries []string) []timer.Fire {
	if len(entries) == 0 {
		return nil
	}
	fires := make([]timer.Fire, 0, len(entries))
	var buf [taskwire.MaxLen]byte
	for _, m := range entries {
		f, err := taskwire.Decode(append(buf[:0], m...))
		if err != nil {
			w.log.Error().
				Err(err).
				Str("key", key).
				Hex("entry", []byte(m)).
				Msg("unreadable window entry ignored")
			continue
		}
		fires = append(fires, f)
	}
	return fires
}

// dedupe keeps one entry per fire and revision, in place. Entries of one instant are sorted by
// their bytes, which begin with the fire id. So duplicates are adjacent, except for other revisions
// in between.
func dedupe(fires []timer.Fire) []timer.Fire {
	out := fires[:0]
next:
	for _, f := range fires {
		for i := len(out) - 1; i >= 0 && out[i].FireID == f.FireID; i-- {
			if out[i].Rev == f.Rev {
				if f.Version > out[i].Version {
					out[i] = f
				}
				continue next
			}
		}
		out = append(out, f)
	}
	return out
}

func first(ss []string) string {
	if len(ss) == 0 {
		return ""
	}
	return ss[0]
}

func at(ms int64) string { return strconv.FormatInt(ms, 10) }

func after(ms int64) string { return "(" + at(ms) }
