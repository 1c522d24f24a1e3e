package limit

import "time"

// meter measures the rate of an event over the last one to two seconds.
type meter struct {
	from              time.Time // start of the current second
	current, previous int
}

func (m *meter) roll(now time.Time) {
	if d := now.Sub(m.from); d >= 2*time.Second || d < 0 {
		m.from, m.current, m.previous = now, 0, 0
	} else if d >= time.Second {
		m.from, m.current, m.previous = m.from.Add(time.Second), 0, m.current
	}
}

func (m *meter) count(now time.Time) {
	m.roll(now)
	m.current++
}

// rate returns events per second: those of the current second, plus the matching part of the
// previous one.
func (m *meter) rate(now time.Time) float64 {
	m.roll(now)
	part := now.Sub(m.from).Seconds()
	return float64(m.current) + float64(m.previous)*(1-part)
}
