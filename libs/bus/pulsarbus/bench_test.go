package pulsarbus_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/bus"
	"github.com/carillon-timer/carillon/libs/bus/pulsarbus"
	"github.com/carillon-timer/carillon/libs/testenv"
)

// BenchmarkBus publishes and consumes tasks of 100 bytes, 200 per call.
func BenchmarkBus(b *testing.B) {
	place := testenv.Pulsar(b)
	p, err := pulsarbus.New(pulsarbus.Options{Config: pulsarbus.Config{
		URL: place.URL, AdminURL: place.AdminURL, Tenant: place.Tenant, Namespace: place.Namespace,
	}})
	require.NoError(b, err)
	defer func() { require.NoError(b, p.Close()) }()
	require.NoError(b, p.Setup(b.Context(), bus.Topics(bus.DefaultTaskPartitions)))
	done := make(chan int, 1024)
	s := executors
	s.Concurrency, s.MaxBatch, s.Prefetch = 4, 500, 200
	_, err = p.Subscribe(b.Context(), s, func(_ context.Context, batch []bus.Message) []error {
		done <- len(batch)
		return nil
	})
	require.NoError(b, err)
	msgs := make([]bus.Message, 200)
	for i := range msgs {
		msgs[i].Payload = make([]byte, 100)
	}
	b.ReportAllocs()
	b.ResetTimer()
	for range 4 {
		go func() {
			for left := b.N / 4; left > 0; left -= len(msgs) {
				if err := p.Publish(
					b.Context(),
					bus.TasksNormal,
					msgs[:min(left, len(msgs))]...); err != nil {
					b.Error(err)
				}
			}
		}()
	}
	batches, n := 0, 0
	for ; n < b.N/4*4; n += <-done {
		batches++
	}
	b.ReportMetric(float64(n)/float64(max(1, batches)), "messages/batch")
}
