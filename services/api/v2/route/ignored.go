package route

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humachi"

	"github.com/carillon-timer/carillon/services/api/input"
	"github.com/carillon-timer/carillon/services/api/problem"
)

// The headers of conditional requests.
const (
	ifMatch     = "If-Match"
	ifNoneMatch = "If-None-Match"
)

const keyHeader = "Idempotency-Key"

// refuseIgnored refuses what huma would ignore: a query parameter given a second time, an empty or
// second idempotency key, a condition of a write that the operation does not check, and a body where
// the operation takes none.
func refuseIgnored(api huma.API, in reflect.Type, writes bool) huma.Middlewares {
	repeatable := tagged(in, "query", func(options string) bool {
		return strings.Contains(options, "explode")
	})
	headers := tagged(in, "header", func(string) bool { return true })
	_, hasBody := in.FieldByName("Body")
	_, hasRawBody := in.FieldByName("RawBody")
	takesBody := hasBody || hasRawBody
	return huma.Middlewares{func(ctx huma.Context, next func(huma.Context)) {
		found := repeatedParameter(ctx, repeatable)
		if found == nil && slices.Contains(headers, keyHeader) {
			found = ignoredKey(ctx)
		}
		if found == nil && writes {
			found = ignoredCondition(ctx, headers)
		}
		if found == nil && writes && !takesBody {
			found = ignoredBody(ctx)
		}
		if found == nil {
			next(ctx)
			return
		}
		if status, ok := errors.AsType[huma.StatusError](found); ok {
			_ = huma.WriteErr(api, ctx, status.GetStatus(), status.Error())
			return
		}
		_ = huma.WriteErr(api, ctx, http.StatusUnprocessableEntity, "validation failed", found)
	}}
}

// tagged returns the names in a tag of an input's fields, including those of embedded structs.
func tagged(in reflect.Type, key string, wanted func(options string) bool) (names []string) {
	for _, f := range reflect.VisibleFields(in) {
		name, options, _ := strings.Cut(f.Tag.Get(key), ",")
		if name != "" && wanted(options) {
			names = append(names, name)
		}
	}
	return names
}

func repeatedParameter(ctx huma.Context, repeatable []string) error {
	at := ctx.URL()
	if !strings.Contains(at.RawQuery, "&") {
		return nil
	}
	for name, values := range at.Query() {
		if len(values) > 1 && !slices.Contains(repeatable, name) {
			return &huma.ErrorDetail{
				Message:  "expected this parameter once, found it twice: leave one of the two out",
				Location: "query." + name,
			}
		}
	}
	return nil
}

// ignoredKey refuses an idempotency key without a value, which huma takes as left out, several lines,
// of which it would read the first, and one that is not UTF-8: such keys become one in JSON.
func ignoredKey(ctx huma.Context) error {
	r, _ := humachi.Unwrap(ctx)
	lines := r.Header.Values(keyHeader)
	var fault string
	switch {
	case len(lines) == 0:
		return nil
	case len(lines) > 1:
		fault = "expected this header once, found it more often: leave all but one out"
	case lines[0] == "":
		fault = "expected a key, found none: give one, or leave the header out"
	case !utf8.ValidString(lines[0]):
		fault = "expected UTF-8, found other bytes: use ASCII characters, such as those of a UUID"
	default:
		return nil
	}
	return &huma.ErrorDetail{Message: fault, Location: "header." + keyHeader}
}

// ignoredCondition refuses a condition that the operation does not check, one without a value, which
// huma takes as left out, and two of which an operation would check one. Several lines of a header are
// one list, of which huma would read the first line.
func ignoredCondition(ctx huma.Context, headers []string) error {
	r, _ := humachi.Unwrap(ctx)
	given := 0
	for _, name := range []string{ifMatch, ifNoneMatch} {
		lines := r.Header.Values(name)
		if len(lines) == 0 {
			continue
		}
		given++
		list := strings.Join(lines, ", ")
		fault := ""
		switch {
		case !slices.Contains(headers, name):
			fault = "expected no such header, found one, which this operation does not " +
				"check: leave it out"
		case strings.Trim(list, ", \t") == "":
			fault = "expected a condition, found none: give one, or leave the header out"
		case given > 1:
			fault = "expected one condition, found If-Match, too: leave one of the two out"
		case len(lines) > 1:
			r.Header.Set(name, list)
		}
		if fault != "" {
			return &huma.ErrorDetail{Message: fault, Location: "header." + name}
		}
	}
	return nil
}

// ignoredBody refuses a body other than an empty object or null, which some clients always send.
func ignoredBody(ctx huma.Context) error {
	r, _ := humachi.Unwrap(ctx)
	if r.Body == nil || r.Body == http.NoBody || r.ContentLength == 0 {
		return nil
	}
	const enough = 64 // bytes, of an empty object with space
	text, err := io.ReadAll(io.LimitReader(r.Body, enough))
	inner, object := bytes.CutPrefix(bytes.TrimSpace(text), []byte("{"))
	inner, closed := bytes.CutSuffix(inner, []byte("}"))
	empty := len(bytes.TrimSpace(inner)) == 0 && object == closed ||
		string(bytes.TrimSpace(text)) == "null"
	switch {
	case err != nil:
		return problem.Of(problem.BodyFault(err, input.MaxRequestBytes))
	case empty && len(text) < enough:
		return nil
	}
	return &huma.ErrorDetail{
		Message:  "expected no body, found one, which this operation does not read: leave it out",
		Location: "body",
	}
}
