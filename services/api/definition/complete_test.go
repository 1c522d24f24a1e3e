package definition_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/api/definition"
)

// TestEveryFieldOfTargetsIsShown checks that callers can give and see each field of a target.
func TestEveryFieldOfTargetsIsShown(t *testing.T) {
	t.Parallel()
	shown := make(map[string]bool)
	for field := range reflect.TypeFor[definition.TargetFields]().Fields() {
		shown[jsonName(field)] = true
	}
	for field := range reflect.TypeFor[timer.Target]().Fields() {
		if name := jsonName(field); name != "kind" {
			require.True(
				t,
				shown[name],
				"field %s is not in TargetFields of services/api/definition/targets.go: CONTRIBUTING.md lists what a kind needs",
				name,
			)
		}
	}
}

func jsonName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}
