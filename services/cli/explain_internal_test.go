package cli

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/services/cli/internal/client"
)

// TestAFreezeIsSaidOnce checks that the sentence about a freeze is added only where the answer's text
// lacks it.
func TestAFreezeIsSaidOnce(t *testing.T) {
	t.Parallel()
	due := client.Object{"frozen": true, "text": "It is due."}
	require.Equal(t, "It is due. "+frozenText, explanationText(due))
	due["fire"] = map[string]any{"status": "open"}
	require.Equal(t, "It is due.", explanationText(due))
}
