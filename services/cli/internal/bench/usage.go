package bench

import (
	"cmp"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/procfs"
)

// servers are programs besides Carillon's own whose use of CPU and memory belongs to the figures.
//
//nolint:gochecknoglobals // a constant
var servers = map[string]string{
	"mariadbd":     "MySQL",
	"mysqld":       "MySQL",
	"redis-server": "Redis",
	"java":         "Pulsar",
}

// use is what the programs of a name have used.
type use struct {
	cpu    time.Duration
	memory uint64
}

// usage returns what the processes on this machine have used, by name. It is empty on systems
// without /proc. Deployments elsewhere are not seen.
func usage() map[string]use {
	out := make(map[string]use)
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return out
	}
	all, err := fs.AllProcs()
	if err != nil {
		return out
	}
	for _, p := range all {
		stat, err := p.Stat()
		if err != nil {
			continue // it has ended
		}
		name := servers[stat.Comm]
		switch {
		case p.PID == os.Getpid():
			name = "bench"
		case strings.HasPrefix(stat.Comm, "carillon"):
			name = processName(p, stat.Comm)
		case name == "":
			continue
		}
		u := out[name]
		u.cpu += time.Duration(stat.CPUTime() * float64(time.Second))
		u.memory += uint64(stat.ResidentMemory()) //nolint:gosec // not negative
		out[name] = u
	}
	return ofDeployment(out)
}

// ofDeployment leaves out servers where no service runs that would use them: one process has its
// own. Whether they serve this deployment or another on the machine cannot be seen.
func ofDeployment(all map[string]use) map[string]use {
	for name := range all {
		if strings.HasPrefix(name, "carillon-") && name != "carillon-receiver" {
			return all
		}
	}
	for _, name := range servers {
		delete(all, name)
	}
	return all
}

// processName returns a process's program, which its comm may have cut.
func processName(p procfs.Proc, comm string) string {
	if args, err := p.CmdLine(); err == nil && len(args) > 0 {
		return args[0][strings.LastIndexByte(args[0], '/')+1:]
	}
	return comm
}

// Usage is what the processes of a program used in a phase.
type Usage struct {
	Name       string  `json:"name"`
	CPUPercent float64 `json:"cpu_percent"` // of one CPU
	USPerFire  float64 `json:"us_per_fire"`
	MemoryMB   float64 `json:"memory_mb"` // resident, at the end
}

const (
	megabyte = 1 << 20
	leastCPU = 0.01 // of one CPU: what uses less is left out
)

// used returns what programs used between two readings, most first.
func used(before, after map[string]use, length time.Duration, fires int) []Usage {
	var all []Usage
	for name, u := range after {
		cpu := u.cpu - before[name].cpu
		if cpu.Seconds() < leastCPU*length.Seconds() {
			continue // a server of others
		}
		all = append(all, Usage{
			Name:       name,
			CPUPercent: 100 * cpu.Seconds() / length.Seconds(),
			USPerFire:  float64(cpu.Microseconds()) / float64(max(fires, 1)),
			MemoryMB:   float64(u.memory) / megabyte,
		})
	}
	slices.SortFunc(all, func(a, b Usage) int {
		return cmp.Or(cmp.Compare(b.CPUPercent, a.CPUPercent), cmp.Compare(a.Name, b.Name))
	})
	return all
}

// growth returns by how many bytes the memory of Carillon and its servers grew.
func growth(before, after map[string]use) int64 {
	var n int64
	for name, u := range after {
		if name != "bench" {
			n += int64(u.memory) - int64(before[name].memory) //nolint:gosec // not so large
		}
	}
	return n
}
