package api_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestEveryResourceIsServed checks that New adds the operations of each package below v2.
func TestEveryResourceIsServed(t *testing.T) {
	t.Parallel()
	service, err := os.ReadFile("service.go")
	require.NoError(t, err)
	resources, err := filepath.Glob("v2/*/resource.go")
	require.NoError(t, err)
	require.NotEmpty(t, resources)
	for _, file := range resources {
		name := filepath.Base(filepath.Dir(file))
		require.Regexp(
			t,
			name+`\.(Resource\{|New\()`,
			string(service),
			"resource %s is not in services/api/service.go: CONTRIBUTING.md lists what a resource needs",
			name,
		)
	}
}
