package ui

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestChangesOf(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("界", maxShown+1)
	before := map[string]any{
		"same": "x", "gone": true, "empty": nil,
		"schedule": map[string]any{"specs": []any{"a"}, "time_zone": "UTC"},
	}
	after := map[string]any{
		"same": "x", "body": long,
		"schedule": map[string]any{"specs": []any{"a", "b"}, "time_zone": "UTC"},
	}
	require.Equal(t, []auditChange{
		{"body", "", strings.Repeat("界", maxShown) + "…"},
		{"gone", "true", ""},
		{"schedule.specs", `["a"]`, `["a","b"]`},
	}, changesOf(before, after))
	require.Len(t, changesOf(nil, after), 4)
	require.Empty(t, changesOf(after, after))
}

// TestChangesOfEntries checks that only what somebody has changed counts as a change.
func TestChangesOfEntries(t *testing.T) {
	t.Parallel()
	e := auditEntry{
		Before: map[string]any{"version": 1.0, "status": "active"},
		After:  map[string]any{"version": 2.0, "status": "paused", "fires": 1.0},
	}
	for action, want := range map[string]int{"run": 0, "test": 0, "complete": 0, "pause": 2} {
		e.Action = action
		require.Len(t, e.changes(), want, action)
	}
}

// TestLongTextsThatDifferAtTheEnd checks that a change beyond what is shown is still a change.
func TestLongTextsThatDifferAtTheEnd(t *testing.T) {
	t.Parallel()
	a := strings.Repeat("x", maxShown+50)
	changes := changesOf(map[string]any{"body": a + "1"}, map[string]any{"body": a + "2"})
	about := "…" + strings.Repeat("x", maxShown/4)
	require.Equal(t, []auditChange{{"body", about + "1", about + "2"}}, changes)
	changes = changesOf(map[string]any{"body": a + a}, map[string]any{"body": "y"})
	require.Equal(t, "y", changes[0].After)
	require.Equal(t, strings.Repeat("x", maxShown)+"…", changes[0].Before)
}

func TestMay(t *testing.T) {
	t.Parallel()
	for scope, want := range map[string]string{
		"": "", "read": "r", "operate": "ro", "write": "row", "admin": "rowa",
	} {
		var may string
		for _, s := range []string{"read", "operate", "write", "admin", "x"} {
			if (callerBody{Scope: scope}).May(s) {
				may += s[:1]
			}
		}
		require.Equal(t, want, may, scope)
	}
}
