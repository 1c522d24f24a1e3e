package receiver_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"

	"github.com/carillon-timer/carillon/e2e/receiver"
	"github.com/carillon-timer/carillon/libs/timer"
)

// BenchmarkArrivals measures the cost of a callback at both ends of a keep-alive connection.
func BenchmarkArrivals(b *testing.B) {
	r, err := receiver.Start(b.Context(), "127.0.0.1:0")
	require.NoError(b, err)
	defer func() { require.NoError(b, r.Close()) }()
	hc := &fasthttp.HostClient{Addr: r.Addr(), MaxConns: 64}
	b.SetParallelism(16)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		q, a := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
		q.SetRequestURI(r.URL("/bench"))
		q.Header.SetMethod("POST")
		q.Header.Set("Carillon-Start", time.Now().UTC().Format(time.RFC3339Nano))
		q.Header.Set("Carillon-Attempt", "1")
		for n := int64(1); pb.Next(); n++ {
			q.Header.Set("Carillon-Fire-Id", timer.FireID{Timer: timer.ID(n), DueMS: n}.String())
			if err := hc.Do(q, a); err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "req/s")
}
