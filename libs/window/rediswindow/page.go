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

// Range implements window.Window: one round trip, two where the limit cuts through an instant.
// Marks and generation are read in one transaction: a slice that is lost in between cannot show old
// marks missing beside a generation that is still there.
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
		// The last one begins a new instant: it shows that the others are whole, and goes to the
		// next page.
		page.Fires, page.More = page.Fires[:n-1], true
		return page, nil
	}
	return w.complete(ctx, key, page, last, toMS)
}

// complete reads all of the last instant, and whether anything follows it.
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
		// The later reading: a slice that was lost between the two must not pass for a whole one.
		Generation: first(generation.Val()),
		Fires:      append(page.Fires[:n], dedupe(w.decode(key, entries.Val()))...),
		More:       rest.Val() > 0,
	}, nil
}

// decode reads marks. One that nobody can read is left out: its fire's row is in the store, and the
// sweep finds it.
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
				Hex("mark", []byte(m)).
				Msg("unreadable mark left out")
			continue
		}
		fires = append(fires, f)
	}
	return fires
}

// dedupe leaves one mark of each fire and revision, in place. Marks of one instant come in the
// order of their bytes, and those begin with the fire's id: equal ones are neighbours, but for
// other revisions in between.
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
