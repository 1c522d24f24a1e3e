package limit_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/limit"
)

// claims names every want, in order.
func claims(from byte, wants []int) []limit.Claim {
	out := make([]limit.Claim, len(wants))
	for i, w := range wants {
		out[i] = limit.Claim{Executor: string(rune(from) + rune(i)), Want: w}
	}
	return out
}

func TestShare(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		limit, want int
		others      []int
		part        int
	}{
		{10, 3, nil, 3},
		{10, 30, nil, 10},
		{12, 12, []int{12}, 6},
		{12, 12, []int{12, 2}, 5},
		{12, 2, []int{12, 12}, 2},
		{10, 0, []int{20}, 0},
		{7, 5, []int{5}, 4},
	} {
		require.Equal(
			t,
			tt.part,
			limit.Share(
				tt.limit,
				limit.Claim{Executor: "me", Want: tt.want},
				claims('a', tt.others),
				time.Now(),
			),
			"%+v",
			tt,
		)
	}
	for range 20_000 {
		most := 1 + rand.IntN(50)
		wants := make([]int, 1+rand.IntN(8))
		sum := 0
		for i := range wants {
			wants[i] = rand.IntN(30)
			sum += wants[i]
		}
		given, all, now := 0, claims('a', wants), time.Now()
		for i, w := range wants {
			others := append(append([]limit.Claim{}, all[:i]...), all[i+1:]...)
			part := limit.Share(most, all[i], others, now)
			require.LessOrEqual(t, part, w)
			given += part
		}
		require.GreaterOrEqual(t, given, min(sum, most), "nothing lies idle: %d %v", most, wants)
		require.Less(
			t,
			given,
			min(sum, most)+len(wants),
			"parts are even, but for the odd ones: %d %v",
			most,
			wants,
		)
	}
}

func TestScarceSlotsRotate(t *testing.T) {
	t.Parallel()
	all := claims('a', []int{3, 0, 1, 9, 2}) // four of them want slots
	for most := 1; most < 4; most++ {
		had := make([]int, len(all))
		began := time.Unix(1_800_000_000, 0)
		for at := began; at.Sub(began) < 12*limit.SlotRotation; at = at.Add(limit.SlotRotation / 4) {
			given := 0
			for i, me := range all {
				others := append(append([]limit.Claim{}, all[:i]...), all[i+1:]...)
				part := limit.Share(most, me, others, at)
				had[i] += part
				given += part
			}
			require.Equal(t, most, given)
		}
		require.Equal(
			t,
			[]int{12 * most, 0, 12 * most, 12 * most, 12 * most},
			had,
			"the same for each that wants one",
		)
	}
}
