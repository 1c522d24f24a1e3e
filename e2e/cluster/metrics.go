package cluster

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Metrics are the series of a /metrics page, from name with labels to value.
type Metrics map[string]float64

// Sum adds the series of a name whose labels contain each of the given parts, such as
// `outcome="failed"`.
func (m Metrics) Sum(name string, labels ...string) float64 {
	var sum float64
series:
	for k, v := range m {
		rest, ok := strings.CutPrefix(k, name)
		if !ok || rest != "" && rest[0] != '{' {
			continue
		}
		for _, l := range labels {
			if !strings.Contains(rest, l) {
				continue series
			}
		}
		sum += v
	}
	return sum
}

// Metrics reads the process's /metrics.
func (p *Process) Metrics(ctx context.Context) (Metrics, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second) //nolint:mnd // as for a probe
	defer cancel()
	admin := p.Admin()
	if admin == "" {
		return nil, fmt.Errorf("%s does not listen", p.Name)
	}
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, admin+"/metrics", nil)
	if err != nil {
		return nil, fmt.Errorf("reading metrics: %w", err)
	}
	resp, err := probes.Do(q)
	if err != nil {
		return nil, fmt.Errorf("reading metrics: %w", err)
	}
	defer resp.Body.Close()
	m := make(Metrics)
	sc := bufio.NewScanner(resp.Body)
	for sc.Scan() {
		line := sc.Text()
		i := strings.LastIndexByte(line, ' ')
		if i < 0 || line[0] == '#' {
			continue
		}
		if v, err := strconv.ParseFloat(line[i+1:], 64); err == nil {
			m[line[:i]] = v
		}
	}
	if err := sc.Err(); err != nil {
		return nil, fmt.Errorf("reading metrics: %w", err)
	}
	return m, nil
}

// Sum adds a metric over processes. A process that does not answer counts as 0.
func Sum(ctx context.Context, procs []*Process, name string, labels ...string) float64 {
	var sum float64
	for _, p := range procs {
		if m, err := p.Metrics(ctx); err == nil {
			sum += m.Sum(name, labels...)
		}
	}
	return sum
}
