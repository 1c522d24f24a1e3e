package bench

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// Quantiles are those of lateness.
type Quantiles struct {
	N    int     `json:"n"`
	P50  float64 `json:"p50_ms"`
	P90  float64 `json:"p90_ms"`
	P99  float64 `json:"p99_ms"`
	P999 float64 `json:"p999_ms"`
	Max  float64 `json:"max_ms"`
}

// quantiles sorts ms, in milliseconds, and returns its quantiles.
func quantiles(ms []float64) Quantiles {
	slices.Sort(ms)
	q := Quantiles{N: len(ms)}
	if q.N == 0 {
		return q
	}
	at := func(p float64) float64 {
		return ms[max(0, int(math.Ceil(p*float64(len(ms))))-1)]
	}
	q.P50, q.P90, q.P99, q.P999, q.Max = at(.5), at(.9), at(.99), at(.999), ms[len(ms)-1]
	return q
}

// Bar is a bar of a histogram: how many values are below UpTo, and not below that of the bar before.
type Bar struct {
	UpToMS float64 `json:"up_to_ms"` // excluded; 0: no end
	N      int     `json:"n"`
}

// bounds are those of a histogram's bars, in milliseconds.
//
//nolint:gochecknoglobals // a constant
var bounds = []float64{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 30000}

// histogram counts sorted values in bars.
func histogram(ms []float64) []Bar {
	var bars []Bar
	from := 0
	for _, b := range append(slices.Clone(bounds), 0) {
		to := len(ms)
		if b > 0 {
			to, _ = slices.BinarySearch(ms, b)
		}
		bars = append(bars, Bar{UpToMS: b, N: to - from})
		from = to
	}
	return bars
}

const barWidth = 40 // characters

// drawHistogram returns a line for each bar, from the first to the last that is not empty.
func drawHistogram(bars []Bar) string {
	first, last, most, sum := -1, -1, 0, 0
	for i, b := range bars {
		if b.N > 0 {
			last = i
			if first < 0 {
				first = i
			}
		}
		most, sum = max(most, b.N), sum+b.N
	}
	if first < 0 {
		return ""
	}
	var out strings.Builder
	for i := first; i <= last; i++ {
		b := bars[i]
		label := "≥ " + duration(bounds[len(bounds)-1])
		if b.UpToMS > 0 {
			label = "< " + duration(b.UpToMS)
		}
		width := (b.N*barWidth + most - 1) / most
		fmt.Fprintf(&out, "  %8s  %-*s %6.2f %%  %d\n",
			label, barWidth, strings.Repeat("█", width), 100*float64(b.N)/float64(sum), b.N)
	}
	return out.String()
}

// duration formats milliseconds. Starts of calls have whole milliseconds.
func duration(ms float64) string {
	switch {
	case ms < 1:
		return "< 1 ms"
	case ms < float64(time.Second/time.Millisecond):
		return fmt.Sprintf("%.0f ms", ms)
	default:
		return fmt.Sprintf("%.4g s", ms/float64(time.Second/time.Millisecond))
	}
}
