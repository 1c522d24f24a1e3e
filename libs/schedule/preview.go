package schedule

import (
	"time"

	"github.com/carillon-timer/carillon/libs/timer"
)

// MaxPreview is the largest count that Preview takes, and MaxPreviewExcluded how many excluded candidates it lists.
const (
	MaxPreview         = 1000
	MaxPreviewExcluded = 1000
)

// Forecast is what Preview tells. Its JSON is the API's.
type Forecast struct {
	Fires    []ForecastFire      `json:"fires"`
	Excluded []ForecastExclusion `json:"excluded"`
}

// ForecastFire is one due instant.
type ForecastFire struct {
	Due   time.Time `json:"due"`   // UTC
	Local string    `json:"local"` // the same instant on the wall clock of the schedule's zone, RFC 3339
}

// ForecastExclusion is an instant that the schedule names and that is not due.
type ForecastExclusion struct {
	Due    time.Time `json:"due"`
	Local  string    `json:"local"`
	Reason string    `json:"reason"`
}

// Preview returns the first count due instants after fromMS, and what was excluded on the way.
func Preview(s timer.Schedule, in Inputs, fromMS, anchorMS int64, count int) (*Forecast, error) {
	p, err := Parse(s, in)
	if err != nil {
		return nil, err
	}
	out := &Forecast{Fires: []ForecastFire{}, Excluded: []ForecastExclusion{}}
	for at := fromMS; len(out.Fires) < count; {
		if at = p.Next(at, anchorMS); at == timer.NeverMS {
			break
		}
		due := time.UnixMilli(at).UTC()
		out.Fires = append(out.Fires, ForecastFire{Due: due, Local: due.Format(time.RFC3339)})
	}
	return out, nil
}
