package route

import (
	"net/http"
	"reflect"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// refuseEmptyEnums refuses query parameters of an input that have an enumeration and are given
// without a value. huma takes them as left out, although no enumeration has an empty value.
func refuseEmptyEnums(api huma.API, input reflect.Type) huma.Middlewares {
	enums := enumsOf(input)
	if len(enums) == 0 {
		return nil
	}
	return huma.Middlewares{func(ctx huma.Context, next func(huma.Context)) {
		at := ctx.URL()
		query := at.Query()
		for _, e := range enums {
			if slices.Contains(query[e.name], "") {
				_ = huma.WriteErr(
					api, ctx, http.StatusUnprocessableEntity, "validation failed",
					&huma.ErrorDetail{
						Message:  "expected one of " + e.values + ", or no parameter",
						Location: "query." + e.name,
						Value:    "",
					},
				)
				return
			}
		}
		next(ctx)
	}}
}

// enum is a query parameter with an enumeration.
type enum struct{ name, values string }

// enumsOf returns those of an input, including embedded structs.
func enumsOf(input reflect.Type) (all []enum) {
	for _, f := range reflect.VisibleFields(input) {
		name, values := f.Tag.Get("query"), f.Tag.Get("enum")
		if name, _, _ = strings.Cut(name, ","); name != "" && values != "" {
			all = append(all, enum{name: name, values: values})
		}
	}
	return all
}
