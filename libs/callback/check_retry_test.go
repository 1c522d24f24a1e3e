package callback_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/callback"
	"github.com/carillon-timer/carillon/libs/timer"
)

// TestNoRetryListsWhatTargetsCanAnswer checks that numbers of another protocol are refused, because
// they would do nothing.
func TestNoRetryListsWhatTargetsCanAnswer(t *testing.T) {
	t.Parallel()
	const (
		http, grpc, pulsar = timer.KindHTTP, timer.KindGRPC, timer.KindPulsar
		valid              = ""
	)
	for _, tt := range []struct {
		kinds []timer.TargetKind
		set   string
		want  string
	}{
		{[]timer.TargetKind{http}, "400-404,999", valid},
		{[]timer.TargetKind{http}, "404,3", `100 to 999 (http), found "3"`},
		{[]timer.TargetKind{grpc}, "1-16", valid},
		{[]timer.TargetKind{grpc}, "400-404", `1 to 16 (grpc), found "400-404"`},
		{[]timer.TargetKind{pulsar}, "", valid},
		{[]timer.TargetKind{pulsar}, "404", `no target of kind pulsar answers a status, found "404"`},
		{[]timer.TargetKind{http, grpc}, "404,3", valid},
		{[]timer.TargetKind{pulsar, http, http}, "404", valid},
		{[]timer.TargetKind{pulsar, grpc}, "404", `1 to 16 (grpc), found "404"`},
		{[]timer.TargetKind{"later"}, "404", valid}, // the kind is refused already
	} {
		set, err := timer.ParseStatusesAndCodes(tt.set)
		require.NoError(t, err)
		var one timer.Target
		var several timer.Fanout
		if one.Kind = tt.kinds[0]; len(tt.kinds) > 1 {
			one.Kind = ""
			for _, kind := range tt.kinds {
				several.Targets = append(several.Targets, timer.Target{Kind: kind})
			}
		}
		err = callback.NoRetry("retry.no_retry", &one, &several, set)
		if tt.want == valid {
			require.NoError(t, err, "%v %s", tt.kinds, tt.set)
			continue
		}
		require.ErrorContains(t, err, tt.want)
		require.ErrorContains(t, err, "retry.no_retry")
		require.ErrorContains(t, err, ": leave it out")
	}
}
