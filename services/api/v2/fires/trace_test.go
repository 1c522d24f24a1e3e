package fires_test

import (
	"encoding/hex"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/tracing"
	"github.com/carillon-timer/carillon/libs/tracing/traceid"
	"github.com/carillon-timer/carillon/libs/tracing/tracingtest"
	"github.com/carillon-timer/carillon/services/api"
	"github.com/carillon-timer/carillon/services/servicetest/apitest"
)

// TestACompletedFireHasARootSpan checks that the api ends the trace of a fire that no executor ends,
// once, and only where it is kept.
func TestACompletedFireHasARootSpan(t *testing.T) {
	t.Parallel()
	for sampler, want := range map[string]int{"always_on": 1, "always_off": 0} {
		tracer, exported := tracingtest.New(
			t, tracing.Keep{}, map[string]string{"OTEL_TRACES_SAMPLER": sampler},
		)
		e := apitest.NewExecutor(t, func(o *api.Options) { o.Tracer = tracer })
		fires := e.Held(t, "shop", "bill", 2)
		for i, status := range []string{"delivered", "failed"} {
			e.Accept(t, fires[i])
			token := e.Tokens.Token(fires[i].FireID, 1)
			for range 2 {
				require.Equal(t, 200, e.Complete(t, fires[i].FireID, token, status).Status)
			}
		}
		id := traceid.Of(fires[0].FireID)
		root := traceid.RootOf(id)
		var roots []tracingtest.Span
		for _, s := range exported.Spans(t) {
			if s.Name == "fire" {
				roots = append(roots, s)
			}
		}
		require.Len(t, roots, want, sampler)
		if want == 0 {
			continue
		}
		require.Equal(t, hex.EncodeToString(id[:]), roots[0].Trace)
		require.Equal(t, hex.EncodeToString(root[:]), roots[0].ID)
		require.Equal(t, "delivered", roots[0].Attrs["carillon.outcome"])
		require.Equal(t, "bill", roots[0].Attrs["carillon.timer.name"])
		require.Len(t, roots[0].Links, 1, "the request that made the timer")
	}
}
