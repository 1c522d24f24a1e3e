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
	// maxOffset limits how far the clock may be skewed: more than a broken NTP does, and within the
	// range of the arithmetic of instants.
	maxOffset = 24 * time.Hour
)

// testRoutes returns the routes that the admin listener serves for tests: none unless the process
// was started with -test-clock. With it, a request can skew the host clock that this process uses.
// Whatever runs by the monotonic clock (timeouts, leases, sessions, pauses) is not affected, as
// with a real clock. Log lines and the embedded store, which stands for a database on another host,
// are not affected either.
func (k *Kit) testRoutes() []process.Route {
	if k.HostClock == nil {
		return nil
	}
	k.Log.Warn().
		Msg("TEST CLOCK: the admin port can skew the clock of this process; use -test-clock only in tests")
	return []process.Route{
		{Pattern: "POST " + testClockPath, Handler: setClock(k.HostClock, k.Log)},
	}
}

// setClock accepts {"offset_ms": n} or {"jump_ms": n}. The first sets the clock n ms ahead of the
// host's, or behind it if n is negative. The second moves it n ms further. It answers 204 when
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
			err = errors.New("exactly one of offset_ms and jump_ms is required")
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
