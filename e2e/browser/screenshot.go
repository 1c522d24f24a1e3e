package browser

import (
	"bytes"
	"cmp"
	"image"
	"image/color"
	"image/png"
	"maps"
	"slices"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

const maxColors = 256 // as many as a byte tells apart

// Screenshot returns what the view shows, as PNG. It keeps the colors that it has most, and takes
// the nearest of these for others: the smooth edges of letters have hundreds.
func (tab *Tab) Screenshot(t *testing.T) []byte {
	t.Helper()
	full, err := png.Decode(bytes.NewReader(get(t, tab, chromedp.CaptureScreenshot())))
	require.NoError(t, err)
	counts := make(map[color.Color]int)
	size := full.Bounds()
	for y := size.Min.Y; y < size.Max.Y; y++ {
		for x := size.Min.X; x < size.Max.X; x++ {
			counts[full.At(x, y)]++
		}
	}
	// Colors of equal count come in the order of their values, so that equal views are equal files.
	most := slices.SortedFunc(maps.Keys(counts), func(a, b color.Color) int {
		return cmp.Or(counts[b]-counts[a], cmp.Compare(value(a), value(b)))
	})
	palette := color.Palette(most[:min(len(most), maxColors)])
	nearest := make(map[color.Color]uint8, len(counts))
	for c := range counts {
		nearest[c] = uint8(palette.Index(c)) //nolint:gosec // there are few colors
	}
	small := image.NewPaletted(size, palette)
	for y := size.Min.Y; y < size.Max.Y; y++ {
		for x := size.Min.X; x < size.Max.X; x++ {
			small.SetColorIndex(x, y, nearest[full.At(x, y)])
		}
	}
	var b bytes.Buffer
	require.NoError(t, (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&b, small))
	return b.Bytes()
}

func value(c color.Color) uint64 {
	r, g, b, a := c.RGBA()
	return uint64(r)<<48 | uint64(g)<<32 | uint64(b)<<16 | uint64(a)
}
