package limit

import "time"

// meter measures the rate of an event over the last one to two seconds.
type meter struct {
	from              time.Time // start of the current second
	since             time.Time // of the first event after one to two seconds without any
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
	if m.current+m.previous == 0 {
		m.since = now
	}
	m.current++
}

// shortest is the shortest time over which speed is measured.
const shortest = 100 * time.Millisecond

// speed returns events per second, as rate does, but leaves out the time before the first of them.
func (m *meter) speed(now time.Time) float64 {
	m.roll(now)
	if d := now.Sub(m.since); d < time.Second {
		return float64(m.current+m.previous) / max(d, shortest).Seconds()
	}
	return m.rate(now)
}

// rate returns events per second: those of the current second, plus the matching part of the
// previous one.
func (m *meter) rate(now time.Time) float64 {
	m.roll(now)
	part := now.Sub(m.from).Seconds()
	return float64(m.current) + float64(m.previous)*(1-part)
}

// peak is the most concurrent calls of the last one to two seconds.
type peak struct{ meter }

// add notes how many calls run now.
func (p *peak) add(now time.Time, running int) {
	p.roll(now)
	p.current = max(p.current, running)
}

// most returns the peak. running is how many calls run now.
func (p *peak) most(now time.Time, running int) int {
	p.add(now, running)
	return max(p.current, p.previous)
}
