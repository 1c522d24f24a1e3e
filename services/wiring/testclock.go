package wiring

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/rs/zerolog"

	"github.com/carillon-timer/carillon/libs/clock"
	"github.com/carillon-timer/carillon/libs/process"
)

const (
	testClockPath = "/test/clock"
	testClockBody = 1 << 10
	// maxOffset is how far the clock may be put wrong: beyond what a broken NTP does, and within
	// what the arithmetic of instants takes.
	maxOffset = 24 * time.Hour
)

// testRoutes returns what the admin listener serves for tests: nothing at all, unless the process
// was started with -test-clock. Then all that this process decides by its host's clock is decided
// by one that the call can put wrong. What runs by the monotonic clock (timeouts, leases, sessions,
// pauses) is not moved, as it would not be by a real host's clock; nor are log lines and the
// embedded store, which stands for a database on a host of its own.
func (k *Kit) testRoutes() []process.Route {
	if k.HostClock == nil {
		return nil
	}
	k.Log.Warn().
		Msg("TEST CLOCK: whoever reaches the admin port can put the clock of this process wrong; never run with -test-clock outside of tests")
	return []process.Route{
		{Pattern: "POST " + testClockPath, Handler: setClock(k.HostClock, k.Log)},
	}
}

// setClock takes {"offset_ms": n}: the clock is n ms ahead of the host's from now on, behind it
// where n is negative; or {"jump_ms": n}: so much further than it was. It answers 204 when it is
// done.
func setClock(h *clock.Host, log zerolog.Logger) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var ask struct {
			OffsetMS *int64 `json:"offset_ms"`
			JumpMS   *int64 `json:"jump_ms"`
		}
		d := json.NewDecoder(http.MaxBytesReader(w, r.Body, testClockBody))
		d.DisallowUnknownFields()
		err := d.Decode(&ask)
		var by time.Duration
		switch {
		case err != nil:
		case (ask.OffsetMS == nil) == (ask.JumpMS == nil):
			err = errors.New("one of offset_ms and jump_ms is wanted")
		case ask.OffsetMS != nil:
			by, err = offset(*ask.OffsetMS)
		default:
			by, err = offset(*ask.JumpMS)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if ask.OffsetMS != nil {
			h.Set(by)
		} else {
			by = h.Jump(by)
		}
		log.Warn().Int64("offset_ms", by.Milliseconds()).Msg("test clock set")
		w.WriteHeader(http.StatusNoContent)
	})
}

func offset(ms int64) (time.Duration, error) {
	if most := maxOffset.Milliseconds(); ms > most || ms < -most {
		return 0, fmt.Errorf("%d ms is more than %s", ms, maxOffset)
	}
	return time.Duration(ms) * time.Millisecond, nil
}
