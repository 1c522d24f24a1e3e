package zone_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/zone"
)

// names returns all zones of the compiled-in database.
func names() []string { return zone.Embedded().Names() }

func TestTablesAgreeWithPackageTime(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	for _, name := range names() {
		table, err := zone.Load(name)
		require.NoError(t, err, name)
		for range 100 {
			at := rng.Int64N(230 * 365 * 86_400)
			_, want := time.Unix(at, 0).In(table.Location()).Zone()
			require.Equal(t, int64(want), table.OffsetAt(at), "%s at %d", name, at)
		}
		for i := 1; i < table.Len(); i++ {
			at := table.Start(i)
			_, before := time.Unix(at-1, 0).In(table.Location()).Zone()
			_, after := time.Unix(at, 0).In(table.Location()).Zone()
			require.Equal(
				t,
				[]int64{int64(before), int64(after)},
				[]int64{table.Offset(i - 1), table.Offset(i)},
				"%s at %d",
				name,
				at,
			)
			require.Equal(t, i, table.At(at))
			require.Equal(t, i-1, table.At(at-1))
		}
	}
}

// TestStretchesAreLongerThanShifts checks what searches by local time rely on.
func TestStretchesAreLongerThanShifts(t *testing.T) {
	t.Parallel()
	for _, name := range names() {
		table, err := zone.Load(name)
		require.NoError(t, err, name)
		for i := 1; i < table.Len(); i++ {
			shift := max(table.Offset(i)-table.Offset(i-1), table.Offset(i-1)-table.Offset(i))
			require.Greater(
				t,
				table.End(i)-table.Start(i),
				shift,
				"%s: the stretch from %s",
				name,
				time.Unix(table.Start(i), 0).UTC(),
			)
			require.Greater(
				t,
				table.End(i-1)-table.Start(i-1),
				shift,
				"%s: the stretch until %s",
				name,
				time.Unix(table.Start(i), 0).UTC(),
			)
			if i+1 < table.Len() {
				require.Greater(
					t,
					table.Start(i+1)+table.Offset(i+1),
					table.Start(i)+table.Offset(i),
					name,
				)
				require.Greater(
					t,
					table.End(i)+table.Offset(i),
					table.End(i-1)+table.Offset(i-1),
					name,
				)
			}
		}
	}
}

func TestResolve(t *testing.T) {
	t.Parallel()
	local := func(s string) int64 {
		at, err := time.Parse("2006-01-02 15:04:05", s)
		require.NoError(t, err)
		return at.Unix()
	}
	tests := []struct{ name, zone, local, want string }{
		{"plain", "Europe/Berlin", "2026-01-01 00:00:00", "2025-12-31T23:00:00Z"},
		{"in a gap", "Europe/Berlin", "2026-03-29 02:30:00", "2026-03-29T01:00:00Z"},
		{"behind a gap", "Europe/Berlin", "2026-03-29 03:00:00", "2026-03-29T01:00:00Z"},
		{"twice", "Europe/Berlin", "2026-10-25 02:30:00", "2026-10-25T00:30:00Z"},
		{"behind both", "Europe/Berlin", "2026-10-25 03:00:00", "2026-10-25T02:00:00Z"},
		{"a day that was not", "Pacific/Apia", "2011-12-30 12:00:00", "2011-12-30T10:00:00Z"},
		{"a zone without changes", "", "2026-01-01 00:00:00", "2026-01-01T00:00:00Z"},
	}
	for _, tt := range tests {
		table, err := zone.Load(tt.zone)
		require.NoError(t, err)
		require.Equal(
			t,
			tt.want,
			time.Unix(table.Resolve(local(tt.local)), 0).UTC().Format(time.RFC3339),
			tt.name,
		)
	}
}

func BenchmarkAt(b *testing.B) {
	table, err := zone.Load("Europe/Berlin")
	require.NoError(b, err)
	b.ReportAllocs()
	for at := int64(1); b.Loop(); at = (at + 86_400*1000) % (1 << 32) {
		table.At(at)
	}
}
