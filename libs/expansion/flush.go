package expansion

import (
	"context"
	"time"

	"github.com/rs/zerolog"

	"github.com/carillon-timer/carillon/libs/clock"
	"github.com/carillon-timer/carillon/libs/slicing"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

const (
	flushEvery   = 2 * time.Second
	flushTimeout = 5 * time.Second
	refreshEvery = 5 // flushes between refreshes
	keepMinutes  = 5 // minutes kept before the current one
)

// FlushCounts writes a process's bucket counts every two seconds, until ctx ends. It also refreshes
// them with what other processes committed for the coming minutes. A crash loses at most two
// seconds of estimates, which means fewer buckets for a minute.
func FlushCounts(
	ctx context.Context,
	counts *slicing.Counts,
	st store.Minutes,
	now func() time.Time,
	ahead time.Duration,
	log zerolog.Logger,
) error {
	droppedMinute := int64(0)
	tick := clock.NewTicker(flushEvery)
	for n := 0; tick.Wait(ctx); n++ {
		minute := timer.MinuteOf(now().UnixMilli())
		if err := flush(ctx, counts, st, n%refreshEvery == 0, minute, ahead); err != nil {
			log.Debug().Err(err).Msg("bucket counts not flushed")
		}
		if minute != droppedMinute {
			counts.Drop(minute - keepMinutes)
			droppedMinute = minute
		}
	}
	return nil
}

func flush(
	ctx context.Context,
	counts *slicing.Counts,
	st store.Minutes,
	refresh bool,
	minute int64,
	ahead time.Duration,
) error {
	ctx, cancel := context.WithTimeout(ctx, flushTimeout)
	defer cancel()
	if grow := counts.Take(); len(grow) > 0 {
		committed, err := st.GrowMinutes(ctx, grow)
		if err != nil {
			counts.Return(grow)
			return err
		}
		counts.Refresh(committed)
	}
	if !refresh {
		return nil
	}
	known, err := st.MinuteCounts(ctx, minute, minute+int64(ahead/time.Minute)+1)
	if err != nil {
		return err
	}
	counts.Refresh(known)
	return nil
}
