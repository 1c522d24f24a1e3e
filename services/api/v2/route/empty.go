package route

import (
	"net/http"
	"net/url"
	"reflect"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humachi"
)

// cursor is the parameter whose empty value has a meaning: the first page.
const cursor = "cursor"

// refuseMalformed refuses a query that cannot be read as a whole. Otherwise what cannot be read would
// be taken as left out, its name too: ?dry_run% and ?dry_run; would write.
func refuseMalformed(api huma.API) huma.Middlewares {
	return huma.Middlewares{func(ctx huma.Context, next func(huma.Context)) {
		at := ctx.URL()
		if _, err := url.ParseQuery(at.RawQuery); err != nil {
			_ = huma.WriteErr(
				api, ctx, http.StatusUnprocessableEntity, "validation failed",
				&huma.ErrorDetail{
					Message: "expected name=value, joined by &, with %3B for ; and %25 for %, found " +
						"a query that cannot be read: " + err.Error(),
					Location: "query",
				},
			)
			return
		}
		next(ctx)
	}}
}

// refuseEmpty refuses query parameters of an input that are given without a value. huma takes an
// empty value, and one that is no text, as left out: dry_run= would write, and name= would select
// everything. A name alone means true where the parameter is true or false. huma sees that only in
// the last parameter, and would take dry_run in ?dry_run&app=a as left out: so it becomes
// dry_run=true.
func refuseEmpty(api huma.API, input reflect.Type) huma.Middlewares {
	declared := parametersOf(input)
	if len(declared) == 0 {
		return nil
	}
	return huma.Middlewares{func(ctx huma.Context, next func(huma.Context)) {
		r, _ := humachi.Unwrap(ctx)
		query := strings.Split(r.URL.RawQuery, "&")
		for i, given := range query {
			name, value, hasValue := strings.Cut(given, "=")
			name, _ = url.QueryUnescape(name) // as huma reads it
			p, known := declared[name]
			if known && p.flag && !hasValue {
				query[i] = given + "=true"
				continue
			}
			if value, _ = url.QueryUnescape(value); !known || value != "" {
				continue
			}
			_ = huma.WriteErr(
				api, ctx, http.StatusUnprocessableEntity, "validation failed",
				&huma.ErrorDetail{Message: p.message, Location: "query." + name},
			)
			return
		}
		r.URL.RawQuery = strings.Join(query, "&")
		next(ctx)
	}}
}

// parameter is a query parameter that takes no empty value.
type parameter struct {
	flag    bool   // true or false
	message string // to those who give none
}

// parametersOf returns those of an input by name, including those of embedded structs.
func parametersOf(input reflect.Type) map[string]parameter {
	all := make(map[string]parameter)
	for _, f := range reflect.VisibleFields(input) {
		name, _, _ := strings.Cut(f.Tag.Get("query"), ",")
		if name == "" || name == cursor {
			continue
		}
		expected, remedy := "a value", ", or leave the parameter out"
		if values := f.Tag.Get("enum"); values != "" {
			expected = "one of " + values
		}
		if f.Tag.Get("required") == "true" {
			remedy = ""
		}
		all[name] = parameter{
			flag:    f.Type.Kind() == reflect.Bool,
			message: "expected " + expected + ", found none: give one" + remedy,
		}
	}
	return all
}
