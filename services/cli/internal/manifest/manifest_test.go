package manifest_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/carillon-timer/carillon/services/cli/internal/client"
	"github.com/carillon-timer/carillon/services/cli/internal/manifest"
)

// TestOfKeepsWhatRequestsTake makes an answer with every field of the API's description. What Of
// keeps must be a field of the request, because the API refuses others.
func TestOfKeepsWhatRequestsTake(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../api/openapi.yaml")
	require.NoError(t, err)
	var doc struct {
		Components struct {
			Schemas map[string]struct{ Properties map[string]any }
		}
	}
	require.NoError(t, yaml.Unmarshal(text, &doc))
	for kind, schemas := range map[manifest.Kind][2]string{
		manifest.Timer:    {"TimerBody", "NewTimerBody"},
		manifest.Calendar: {"CalendarBody", "PutCalendarBody"},
	} {
		answer := client.Object{}
		for name := range doc.Components.Schemas[schemas[0]].Properties {
			answer[name] = "x"
		}
		require.NotEmpty(t, answer, schemas[0])
		for name := range manifest.Of(kind, answer).Body {
			require.Contains(t, doc.Components.Schemas[schemas[1]].Properties, name)
		}
	}
}
