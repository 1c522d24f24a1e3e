package load

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/carillon-timer/carillon/e2e/cluster"
)

// tick is the unit of CPU time in /proc, on every Linux that Go supports.
const tick = 10 * time.Millisecond

// neighbours are other programs whose CPU time belongs to the figures, such as the servers.
//
//nolint:gochecknoglobals // a constant
var neighbours = map[string]string{
	"mariadbd":     "mysql",
	"mysqld":       "mysql",
	"redis-server": "redis",
	"java":         "pulsar",
}

// Self is the name of this program's CPU time.
const Self = "load and receiver"

// cpuTimes returns the CPU time used so far, by name: of the cluster's processes, and of the servers
// on this machine.
func cpuTimes(c cluster.Cluster) map[string]time.Duration {
	known := make(map[int]string)
	for _, p := range c.Processes() {
		if pid := p.PID(); pid != 0 {
			known[pid] = p.Name
		}
	}
	servers := neighbours
	if c.Servers() == nil {
		servers = nil
	}
	return times(known, servers)
}

// CPUMeter measures the CPU time of processes.
type CPUMeter struct {
	known   map[int]string
	servers map[string]string
	before  map[string]time.Duration
	began   time.Time
}

// StartCPU measures processes by their id, all processes of servers by their program's name, and
// this process.
func StartCPU(known map[int]string, servers []string) *CPUMeter {
	m := &CPUMeter{known: known, servers: make(map[string]string), began: time.Now()}
	for _, s := range servers {
		m.servers[s] = s
	}
	m.before = times(known, m.servers)
	return m
}

// Stop adds the CPU time since the start to a result.
func (m *CPUMeter) Stop(r *Result, fires int64) {
	r.cpu(m.before, times(m.known, m.servers), time.Since(m.began), fires)
}

// times returns the CPU time used so far, by name: of known processes, of servers by their program's
// name, of this program (Self), and in total ("machine", and "idle").
func times(known map[int]string, servers map[string]string) map[string]time.Duration {
	used := make(map[string]time.Duration)
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		pid, comm, t, ok := procStat(path)
		if !ok {
			continue
		}
		switch name := known[pid]; {
		case name != "":
			used[name] += t
		case pid == os.Getpid():
			used[Self] += t
		case servers[comm] != "":
			used[servers[comm]] += t
		}
	}
	if b, err := os.ReadFile("/proc/stat"); err == nil {
		line, _, _ := strings.Cut(string(b), "\n")
		for i, f := range strings.Fields(line)[1:] {
			v, _ := strconv.ParseInt(f, 10, 64)
			switch t := time.Duration(v) * tick; i {
			case 3, 4: // idle, iowait
				used["idle"] += t
			case 0,
				1,
				2,
				5,
				6: // user, nice, system, irq, softirq; CPU steal does not count
				used["machine"] += t
			}
		}
	}
	return used
}

// resident returns the memory of the cluster's processes, in bytes.
func resident(c cluster.Cluster) map[string]int64 {
	out := make(map[string]int64)
	for _, p := range c.Processes() {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", p.PID()))
		if f := strings.Fields(string(b)); err == nil && len(f) > 1 {
			pages, _ := strconv.ParseInt(f[1], 10, 64)
			out[p.Name] = pages * int64(os.Getpagesize())
		}
	}
	return out
}

// procStat reads the user and system time of a process from /proc/<pid>/stat.
func procStat(path string) (pid int, comm string, used time.Duration, ok bool) {
	b, err := os.ReadFile(path)
	if err != nil {
		return 0, "", 0, false
	}
	// the name may contain any character
	open, end := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
	if open < 1 || end < open {
		return 0, "", 0, false
	}
	const utime, stime = 11, 12 // counted from the field after the name
	f := strings.Fields(string(b[end+1:]))
	if len(f) <= stime {
		return 0, "", 0, false
	}
	pid, err1 := strconv.Atoi(strings.TrimSpace(string(b[:open])))
	u, err2 := strconv.ParseInt(f[utime], 10, 64)
	s, err3 := strconv.ParseInt(f[stime], 10, 64)
	if err1 != nil || err2 != nil || err3 != nil {
		return 0, "", 0, false
	}
	return pid, string(b[open+1 : end]), time.Duration(u+s) * tick, true
}

// CPU is a program's CPU use in a phase.
type CPU struct {
	Name    string  `json:"name"`
	Percent float64 `json:"percent"` // of one CPU
	PerFire float64 `json:"us_per_fire"`
}

func (c CPU) String() string {
	return fmt.Sprintf("%s %.0f %% (%.1f µs)", c.Name, c.Percent, c.PerFire)
}
