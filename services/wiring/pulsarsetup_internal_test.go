package wiring

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/bus/pulsarbus"
	"github.com/carillon-timer/carillon/libs/health"
	"github.com/carillon-timer/carillon/libs/process"
)

// TestRefusedSetupOfPulsarEndsTheStart checks that an error which cannot pass is returned by the
// wait, and not left to a process that runs by then.
func TestRefusedSetupOfPulsarEndsTheStart(t *testing.T) {
	t.Parallel()
	admin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
	}))
	defer admin.Close()
	for range 20 {
		b, err := pulsarbus.New(pulsarbus.Options{
			Config:     pulsarbus.Config{URL: "pulsar://127.0.0.1:1", AdminURL: admin.URL},
			Log:        zerolog.New(io.Discard),
			SetupFirst: true,
		})
		require.NoError(t, err)
		h := health.New(0)
		k := &Kit{Settings: &Settings{}, Health: h, Log: zerolog.New(io.Discard)}
		k.Process = process.New(process.Options{Health: h, Grace: time.Second})
		k.Process.OnClose("pulsar", func(context.Context) error { return b.Close() })
		err = k.preparePulsar(t.Context(), b).wait(t.Context(), false)
		require.NoError(t, k.Process.Close())
		require.ErrorContains(t, err, "preparing pulsar")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.EqualError(t, (&pulsarSetup{}).wait(ctx, true), "waiting for pulsar: context canceled")
}

// TestStartWithAHangingPulsar does not wait for a setup that neither succeeds nor fails.
func TestStartWithAHangingPulsar(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &pulsarSetup{ended: make(chan struct{}), failed: make(chan struct{})}
		began := time.Now()
		require.NoError(t, p.wait(t.Context(), false))
		require.Equal(t, startWithoutPulsar, time.Since(began))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.ErrorIs(t, p.wait(ctx, true), context.DeadlineExceeded, "the command setup waits")
	})
}
