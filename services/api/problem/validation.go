package problem

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"

	"github.com/carillon-timer/carillon/services/api/input"
)

// messageRules translate huma's validation messages into this API's form. What was found is
// appended.
var messageRules = []struct {
	pattern     *regexp.Regexp
	replacement string
}{
	{regexp.MustCompile(`^unexpected property$`), "expected no field of this name"},
	{
		regexp.MustCompile(`^expected string to be RFC 3339 date-time$`),
		`expected an instant such as "2030-01-31T09:00:00Z"`,
	},
	{regexp.MustCompile(`^expected value to be one of "(.*)"$`), "expected one of $1"},
	{regexp.MustCompile(`^expected (string|boolean|integer|number|array|object)$`), "expected $1"},
	{regexp.MustCompile(`^expected length >= (\d+)$`), "expected a text of at least $1 characters"},
	{regexp.MustCompile(`^expected length <= (\d+)$`), "expected a text of at most $1 characters"},
	{
		regexp.MustCompile(`^expected array length >= (\d+)$`),
		"expected a list of at least $1 items",
	},
	{regexp.MustCompile(`^expected array length <= (\d+)$`), "expected a list of at most $1 items"},
	{regexp.MustCompile(`^expected number >= (.*)$`), "expected a number of at least $1"},
	{regexp.MustCompile(`^expected number <= (.*)$`), "expected a number of at most $1"},
	{
		regexp.MustCompile(`^expected string to match pattern \^\[0-9\]\{1,16\}\$$`),
		"expected an id of 1 to 16 digits",
	},
	{
		regexp.MustCompile(`^expected string to match pattern (.*)$`),
		"expected a text that matches $1",
	},
	{regexp.MustCompile(`^invalid integer$`), "expected a whole number"},
	{regexp.MustCompile(`^invalid boolean$`), "expected true or false"},
}

// typeNames replaces JSON types with plain words.
var typeNames = strings.NewReplacer(
	"expected string",
	"expected a text",
	"expected boolean",
	"expected true or false",
	"expected integer",
	"expected a whole number",
	"expected number",
	"expected a number",
	"expected array",
	"expected a list",
	"expected object",
	"expected an object",
)

// grammarFixes corrects messages that huma's numbers make ungrammatical.
var grammarFixes = strings.NewReplacer(
	"at least 1 characters",
	"at least 1 character",
	"at least 1 items",
	"at least 1 item",
	"1e+06",
	"1000000",
)

var missingProperty = regexp.MustCompile(`^expected required property (\S+) to be present$`)

// rewriteMessage converts a message of huma to the form of all messages: what was expected, and
// what was found. Messages of that form stay as they are.
func rewriteMessage(e *huma.ErrorDetail) {
	if at, msg, ok := input.CutLocation(e.Message); ok && e.Location == "body" {
		e.Location, e.Message, e.Value = at, msg, nil
	}
	if strings.Contains(e.Message, ", found ") {
		return
	}
	if m := missingProperty.FindStringSubmatch(e.Message); m != nil {
		e.Location, e.Message, e.Value = e.Location+"."+m[1], "expected a value, found nothing: give this field", nil
		return
	}
	if e.Message == "required query parameter is missing" ||
		e.Message == "required header parameter is missing" {
		e.Message = "expected a value, found nothing: give this parameter"
		return
	}
	if kind, ok := strings.CutPrefix(e.Message, huma.ErrUnknownContentType.Error()+": "); ok {
		e.Message, e.Value = "expected the header Content-Type: application/json, found "+kind, nil
		return
	}
	found := foundValue(e)
	for _, r := range messageRules {
		if !r.pattern.MatchString(e.Message) {
			continue
		}
		replacement := r.pattern.ReplaceAllString(e.Message, r.replacement)
		if replacement == e.Message {
			replacement = typeNames.Replace(replacement)
		}
		if strings.HasPrefix(replacement, "expected no field") {
			found = "one: leave it out, or look for its right name in the description of the API (" +
				input.V2Prefix + "/openapi.yaml)"
		}
		e.Message = grammarFixes.Replace(replacement) + ", found " + found
		return
	}
}

// foundValue describes the invalid value briefly, and only its kind where it may be a secret.
func foundValue(e *huma.ErrorDetail) string {
	secret := isSecretLocation(e.Location)
	switch v := e.Value.(type) {
	case nil:
		return "nothing"
	case string:
		if secret || len(v) > len(input.Clip(v)) {
			return fmt.Sprintf("a text of %d characters", utf8.RuneCountInString(v))
		}
		return fmt.Sprintf("%q", v)
	case bool, float64, int, int64, uint64:
		if secret {
			return "another value"
		}
		if n, ok := v.(float64); ok {
			return strconv.FormatFloat(n, 'f', -1, 64)
		}
		return fmt.Sprint(v)
	case []any:
		return fmt.Sprintf("a list of %d items", len(v))
	case map[string]any:
		return "an object"
	default:
		return "another value"
	}
}
