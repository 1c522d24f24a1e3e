package api_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/servicetest/apitest"
)

// TestUnavailableSaysWhatToDo checks the detail of a 503. It names the header only where the
// operation takes it.
func TestUnavailableSaysWhatToDo(t *testing.T) {
	t.Parallel()
	f := apitest.Setup(t)
	f.Faults.Set(timer.Unavailable("the database is unavailable", apitest.ErrSecret))
	p := f.Problem(t, 503, http.MethodPost, "/api/v2/timers", apitest.V2Body)
	require.Equal(t, "the database is unavailable; "+
		"repeat the request, with the same Idempotency-Key if it had one", p.Detail)
	p = f.Problem(t, 503, http.MethodPost, "/api/v2/timers/1/run?app=shop", `{}`)
	require.Contains(t, p.Detail, "Idempotency-Key")
	p = f.Problem(t, 503, http.MethodGet, "/api/v2/timers/1?app=shop", "")
	require.Equal(t, "the database is unavailable; repeat the request", p.Detail)
	v1 := f.V1(t, 503, http.MethodPost, "/api/timer/v1/def", apitest.V1Body)
	require.Equal(t, "the database is unavailable; repeat the request", v1.Msg)
}
