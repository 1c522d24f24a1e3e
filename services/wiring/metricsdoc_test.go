package wiring_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/bus/pulsarbus"
	"github.com/carillon-timer/carillon/libs/config"
	"github.com/carillon-timer/carillon/services/wiring"
)

var update = flag.Bool("update", false, "write docs/metrics.md anew")

const metricsPage = "../../docs/metrics.md"

const metricsIntro = `# Metrics

Generated from the programs by ` + "`make generate`" + `. [Monitoring](monitoring.md) says which to
watch, and what the alerts mean.

Every process serves these at ` + "`/metrics`" + ` of its admin port, besides the metrics of the Go
runtime (` + "`go_…`" + `), of the process (` + "`process_…`" + `) and of Pulsar's client
(` + "`pulsar_client_…`" + `). A histogram has series with the suffixes ` +
	"`_bucket`, `_sum` and `_count`" + `,
a summary with the last two. A metric with labels may have no series before its first value.
` + "`carillon_trace_spans_total`" + ` is there while tracing is on, and the canary's gauges while
the canary is.

| metric | type | labels | services | meaning |
|---|---|---|---|---|
`

// metric is a row of the page.
type metric struct{ kind, labels, help string }

// recorder remembers the collectors that a program registers. Without a series, only the collector
// knows the type of a metric with labels.
type recorder struct {
	wiring.Registry

	mu    sync.Mutex
	kinds map[string]string
}

func (r *recorder) MustRegister(all ...prometheus.Collector) {
	for _, c := range all {
		r.note(c)
	}
	r.Registry.MustRegister(all...)
}

func (r *recorder) Register(c prometheus.Collector) error {
	r.note(c)
	return r.Registry.Register(c)
}

func (r *recorder) note(c prometheus.Collector) {
	var kind string
	switch c.(type) {
	case *prometheus.CounterVec:
		kind = "counter"
	case *prometheus.GaugeVec:
		kind = "gauge"
	case *prometheus.HistogramVec:
		kind = "histogram"
	case *prometheus.SummaryVec:
		kind = "summary"
	default: // it has a value
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, d := range describe(c) {
		name, _ := parse(d)
		r.kinds[name] = kind
	}
}

func describe(c prometheus.Collector) (all []*prometheus.Desc) {
	out := make(chan *prometheus.Desc)
	go func() {
		defer close(out)
		c.Describe(out)
	}()
	for d := range out {
		all = append(all, d)
	}
	return all
}

var (
	descParts  = regexp.MustCompile(`fqName: ("(?:[^"\\]|\\.)*"), help: ("(?:[^"\\]|\\.)*"),`)
	descLabels = regexp.MustCompile(`constLabels: \{(.*)\}, variableLabels: \{(.*)\}\}$`)
	constLabel = regexp.MustCompile(`(\w+)="(?:[^"\\]|\\.)*"`)
)

// parse reads the text of a description, which has no other way to its parts.
func parse(d *prometheus.Desc) (name string, m metric) {
	parts, labels := descParts.FindStringSubmatch(
		d.String(),
	), descLabels.FindStringSubmatch(
		d.String(),
	)
	if parts == nil || labels == nil {
		panic("a description has another form: " + d.String())
	}
	if _, err := fmt.Sscanf(parts[1]+" "+parts[2], "%q %q", &name, &m.help); err != nil {
		panic(err)
	}
	var all []string
	for _, c := range constLabel.FindAllStringSubmatch(labels[1], -1) {
		all = append(all, "`"+c[1]+"`")
	}
	for l := range strings.SplitSeq(labels[2], ",") {
		if l != "" {
			all = append(all, "`"+l+"`")
		}
	}
	m.labels = strings.Join(all, ", ")
	return name, m
}

var errListed = errors.New("the metrics are listed")

// metricsOf returns the metrics that the program of a role registers.
func metricsOf(t *testing.T, role wiring.Role) map[string]metric {
	t.Helper()
	s := &wiring.Settings{}
	all := map[string]metric{}
	recorded := &recorder{kinds: map[string]string{}}
	err := wiring.Run(t.Context(), wiring.Program{
		Name:     "carillon-" + role.Name,
		Service:  role.Name,
		Settings: s,
		Parts:    []config.Part{&s.Data},
		Roles:    []wiring.Role{role},
		Open: func(ctx context.Context, k *wiring.Kit) error {
			recorded.Registry, k.Registry = k.Registry, recorded
			b, err := pulsarbus.New(pulsarbus.Options{
				Config: pulsarbus.Config{
					URL: "pulsar://127.0.0.1:1", AdminURL: "http://127.0.0.1:1",
					Tenant: "public", Namespace: "carillon",
				},
				Log: zerolog.Nop(), Registerer: k.Registry,
			})
			if err != nil {
				return err
			}
			k.Process.OnClose("pulsar", func(context.Context) error { return b.Close() })
			return wiring.OpenEmbedded(ctx, k)
		},
		Started: func(*wiring.Kit) error {
			families, err := recorded.Gather()
			require.NoError(t, err)
			for _, f := range families {
				recorded.kinds[f.GetName()] = strings.ToLower(f.GetType().String())
			}
			for _, d := range describe(recorded.Registry.(*prometheus.Registry)) {
				name, m := parse(d)
				if !strings.HasPrefix(name, "carillon_") {
					continue
				}
				m.kind = recorded.kinds[name]
				require.NotEmpty(t, m.kind, "the type of %s", name)
				all[name] = m
			}
			return errListed
		},
	}, nil, envWith(
		"CARILLON_DATA_DIR", t.TempDir(), "CARILLON_AUTH", "off", "OTEL_TRACES_EXPORTER", "otlp",
		"OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1",
	), io.Discard)
	require.ErrorIs(t, err, errListed)
	return all
}

// TestMetricsPageIsCurrent compares docs/metrics.md with what the five programs register.
func TestMetricsPageIsCurrent(t *testing.T) {
	t.Parallel()
	rows, services := map[string]metric{}, map[string][]string{}
	for _, role := range roles() {
		for name, m := range metricsOf(t, role) {
			if known, ok := rows[name]; ok {
				require.Equal(t, known, m, "%s differs between services", name)
			}
			rows[name] = m
			services[name] = append(services[name], role.Name)
		}
	}
	var b strings.Builder
	b.WriteString(metricsIntro)
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		of := strings.Join(services[name], ", ")
		if len(services[name]) == len(roles()) {
			of = "all"
		}
		m := rows[name]
		require.NotContains(t, m.help, "|", "the help of %s breaks the table", name)
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", name, m.kind, m.labels, of, m.help)
	}
	if *update {
		require.NoError(t, os.WriteFile(metricsPage, []byte(b.String()), 0o644))
	}
	got, err := os.ReadFile(metricsPage)
	require.NoError(t, err)
	require.Equal(t, b.String(), string(got), "run make generate")
}
