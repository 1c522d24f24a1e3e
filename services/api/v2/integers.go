package v2

import (
	"math"

	"github.com/danielgtaylor/huma/v2"
)

// maxExact is the greatest integer up to which float64, and so JSON in many languages, is exact.
const maxExact = 1<<53 - 1

// boundIntegers gives integers without bounds those of their type, and at most maxExact. Otherwise
// a larger number passes validation, and the decoder then fails without naming the field.
func boundIntegers(d *huma.OpenAPI) {
	seen := make(map[*huma.Schema]bool)
	for _, p := range d.Paths {
		for _, op := range []*huma.Operation{p.Post, p.Put, p.Patch, p.Delete} {
			if op == nil || op.RequestBody == nil {
				continue
			}
			for _, m := range op.RequestBody.Content {
				boundSchema(d.Components.Schemas, m.Schema, seen)
			}
		}
	}
}

func boundSchema(registry huma.Registry, s *huma.Schema, seen map[*huma.Schema]bool) {
	if s != nil && s.Ref != "" {
		s = registry.SchemaFromRef(s.Ref)
	}
	if s == nil || seen[s] {
		return
	}
	seen[s] = true
	if s.Type == huma.TypeInteger {
		low, high := float64(-maxExact), float64(maxExact)
		if s.Format == "int32" {
			low, high = math.MinInt32, math.MaxInt32
		}
		if s.Minimum == nil {
			s.Minimum = &low
		}
		if s.Maximum == nil {
			s.Maximum = &high
		}
		s.PrecomputeMessages()
	}
	for _, one := range s.Properties {
		boundSchema(registry, one, seen)
	}
	boundSchema(registry, s.Items, seen)
}
