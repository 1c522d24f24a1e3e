package peers_test

import (
	"bytes"
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/carillon-timer/carillon/libs/peers"
	"github.com/carillon-timer/carillon/libs/store/sqlstore"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/libs/zone"
	"github.com/carillon-timer/carillon/libs/zone/zonetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// deployment is a store with its processes.
type deployment struct {
	*sqlstore.Store

	t   *testing.T
	ids timer.ID
}

func setup(t *testing.T) *deployment {
	t.Helper()
	st, err := sqlstore.OpenSQLite(t.Context(), sqlstore.SQLiteOptions{Now: time.Now})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	require.NoError(t, st.Migrate(t.Context()))
	return &deployment{Store: st, t: t}
}

type process struct {
	*peers.Watch

	reg  *prometheus.Registry
	log  bytes.Buffer
	kill func() // ends the process as SIGKILL would
}

// start runs a process, possibly a migrator, until the end of the test.
func (d *deployment) start(name string, zones *zone.Database) *process {
	d.t.Helper()
	return d.startWith(name, func(o *peers.Options) { o.Zones = zones })
}

// startWith runs a process with other options.
func (d *deployment) startWith(name string, change func(o *peers.Options)) *process {
	d.t.Helper()
	d.ids++
	p := &process{reg: prometheus.NewRegistry()}
	o := peers.Options{
		Store:      d,
		Zones:      zone.Embedded(),
		ID:         d.ids,
		Name:       name,
		Logger:     zerolog.New(&p.log).Level(zerolog.InfoLevel),
		Registerer: p.reg,
	}
	change(&o)
	w, err := peers.New(o)
	require.NoError(d.t, err)
	require.NoError(d.t, w.Register(d.t.Context()))
	ctx, cancel := context.WithCancel(d.t.Context())
	var parts sync.WaitGroup
	parts.Go(func() { _ = w.Run(ctx) })
	parts.Go(func() { _ = w.Replan(ctx) })
	p.Watch = w
	p.kill = sync.OnceFunc(func() { cancel(); parts.Wait() })
	d.t.Cleanup(p.kill)
	return p
}

// metrics returns the values of metrics by name and label values.
func (p *process) metrics(t *testing.T) map[string]float64 {
	t.Helper()
	families, err := p.reg.Gather()
	require.NoError(t, err)
	out := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := f.GetName()
			for _, l := range m.GetLabel() {
				name += " " + l.GetValue()
			}
			out[name] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	return out
}

func TestProcessesThatDiffer(t *testing.T) {
	t.Parallel()
	same := zonetest.Database(t, "2031a", nil)
	other := zonetest.Database(t, "2031b", map[string]string{"Europe/Berlin": "Europe/London"})
	liar := zonetest.Database(t, "2031b", map[string]string{"Europe/Berlin": "Europe/Moscow"})
	synctest.Test(t, func(t *testing.T) {
		d := setup(t)
		ctx := t.Context()
		first := d.start("one/1", zone.Embedded())
		time.Sleep(30 * time.Second)
		require.NoError(t, first.Check(ctx))
		r := first.Report()
		require.Equal(t, peers.Report{
			Version: zone.Embedded().
				Version(),
			Source:   "embedded",
			Versions: map[string][]string{zone.Embedded().Version(): {"one/1"}},
		}, r)
		require.Equal(t, map[string]float64{
			"carillon_tzdata_info embedded " + zone.Embedded().Version(): 1,
			"carillon_tzdata_versions":                                   1,
			"carillon_deployment_conflicts":                              0,
			"carillon_tzdata_replanned_timers_total":                     0,
		}, first.metrics(t))

		second := d.start("two/2", same)
		time.Sleep(30 * time.Second)
		require.ErrorContains(
			t,
			first.Check(ctx),
			"found "+zone.Embedded().
				Version()+
				" (one/1) and 2031a (two/2): run the same release",
		)
		require.False(t, first.Report().Replanning, "their rules are the same")
		require.Equal(t, 1, strings.Count(first.log.String(), "time zones differ"))
		require.Equal(t, first.Check(ctx), second.Check(ctx))

		first.kill()
		require.NoError(t, first.Close(ctx))
		time.Sleep(30 * time.Second)
		require.NoError(t, second.Check(ctx))
		require.Equal(t, 1, strings.Count(second.log.String(), "time zones are the same"))

		third, fourth := d.start("three/3", other), d.start("four/4", liar)
		time.Sleep(30 * time.Second)
		require.ErrorContains(t, second.Check(ctx), "2031b (")
		require.Len(t, second.Report().Versions, 3, "two call themselves the same, and are not")
		require.True(t, second.Report().Replanning)
		second.kill()
		third.kill()
		time.Sleep(2 * time.Minute)
		require.NoError(t, fourth.Check(ctx), "the lease of a killed process expires")
		require.False(t, fourth.Report().Replanning)
	})
}

// TestStoppedProcess stops a process until its registration has expired. When it resumes, it
// registers again.
func TestStoppedProcess(t *testing.T) {
	t.Parallel()
	other := zonetest.Database(t, "2031b", map[string]string{"Europe/Berlin": "Europe/London"})
	synctest.Test(t, func(t *testing.T) {
		d := setup(t)
		first := d.start("one/1", zone.Embedded())
		first.kill()
		second := d.start("two/2", other)
		time.Sleep(3 * time.Minute)
		require.False(t, second.Report().Replanning)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- first.Run(ctx) }()
		time.Sleep(time.Minute)
		require.True(t, second.Report().Replanning)
		require.Error(t, second.Check(ctx))
		stop()
		require.NoError(t, <-done)
		time.Sleep(3 * time.Minute)
		require.False(t, second.Report().Replanning)
	})
}
