package sim

import (
	"bytes"
	"fmt"
	"sync"
	"time"
)

// journal is the event log of a run. Each line has an event and the simulated time since the start.
type journal struct {
	mu    sync.Mutex
	start time.Time
	b     bytes.Buffer
}

func (j *journal) printf(format string, args ...any) {
	now := time.Now()
	j.mu.Lock()
	defer j.mu.Unlock()
	d := now.Sub(j.start)
	fmt.Fprintf(&j.b, "%s %02d:%02d:%02d.%06d  ", now.UTC().Format("15:04:05.000"),
		int(d.Hours()), int(d.Minutes())%60, int(d.Seconds())%60, d.Microseconds()%1e6)
	fmt.Fprintf(&j.b, format, args...)
	j.b.WriteByte('\n')
}

// Write adds a line of a service's log.
func (j *journal) Write(line []byte) (int, error) {
	j.printf("%s", bytes.TrimSpace(line))
	return len(line), nil
}

func stamp(ms int64) string { return time.UnixMilli(ms).UTC().Format("15:04:05.000") }
