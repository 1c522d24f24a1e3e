package announce_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/carillon-timer/carillon/libs/announce"
	"github.com/carillon-timer/carillon/libs/timer"
	carillonv1 "github.com/carillon-timer/carillon/proto/gen/carillon/v1"
)

func TestAMessageTellsAllOfAnOutcome(t *testing.T) {
	t.Parallel()
	got := new(carillonv1.Outcome)
	m := announce.Message(&timer.Outcome{
		Fire: timer.Fire{FireID: timer.FireID{Timer: 7, DueMS: 1000, Series: 3}}, Kind: timer.Failed, Reason: timer.ReasonExhausted, FinishedMS: 2000,
		UntilMS: 1500, Count: 4, Attempts: 2, LatenessMS: 5, StatusCode: 503, DurationMS: 9, Failure: timer.FailureStatus,
	}, "shop")
	require.NoError(t, proto.Unmarshal(m.Payload, got))
	want := &carillonv1.Outcome{
		TimerId: 7, DueMs: 1000, Series: 3, App: "shop", Kind: "failed", Reason: "exhausted", FinishedMs: 2000, Attempts: 2, LatenessMs: 5, StatusCode: 503,
		DurationMs: 9, UntilMs: 1500, Count: 4, Failure: "status",
	}
	require.True(t, proto.Equal(want, got), "%v", got)
}
