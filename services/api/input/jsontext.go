package input

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"
)

// encoding/json replaces invalid characters with U+FFFD, so a receiver would get other bytes than
// the caller gave.
var (
	ErrNotUTF8   = errors.New("expected UTF-8 text, found other bytes")
	ErrSurrogate = errors.New(
		`expected whole characters, found a \u escape of half of one: a surrogate without the other`,
	)
)

// StrictFormats returns formats that refuse JSON with invalid characters or repeated names. huma
// decodes a body twice: into maps, by which it checks the body, and into the operation's type. So
// the first time is enough for both.
func StrictFormats(formats map[string]huma.Format) map[string]huma.Format {
	formats = maps.Clone(formats) // the map is huma's package-level default
	for name, f := range formats {
		if name == jsonSuffix {
			f.Unmarshal = refuseSuffix
			formats[name] = f
			continue
		}
		read := f.Unmarshal
		f.Unmarshal = func(data []byte, v any) error {
			decoded, first := v.(*any)
			if !first {
				return explainType(data, read(data, v))
			}
			if err := checkJSONText(data); err != nil {
				return err
			}
			if err := read(data, v); err != nil {
				return explainType(data, err)
			}
			return refuseRepeated(data, *decoded)
		}
		formats[name] = f
	}
	return formats
}

// jsonSuffix is the name of huma's format of all content types that end in +json.
const jsonSuffix = "json"

// refuseSuffix refuses a body of such a type. A merge patch read as plain JSON would replace what it
// should merge, and lose settings without an error.
func refuseSuffix([]byte, any) error {
	return fmt.Errorf("%w: another type that ends in +json", huma.ErrUnknownContentType)
}

// CheckJSON refuses valid JSON with invalid characters or repeated names.
func CheckJSON(data []byte) error {
	if err := checkJSONText(data); err != nil {
		return err
	}
	var decoded any
	if err := json.Unmarshal(data, &decoded); err != nil {
		return fmt.Errorf("reading JSON: %w", err)
	}
	return refuseRepeated(data, decoded)
}

// checkJSONText refuses invalid characters in JSON. It does not check the rest of the syntax.
func checkJSONText(data []byte) error {
	if !utf8.Valid(data) {
		return ErrNotUTF8
	}
	for {
		at := bytes.IndexByte(data, '\\')
		if at < 0 || at+1 >= len(data) {
			return nil
		}
		data = data[at:]
		r, ok := escaped(data)
		switch {
		case !ok:
			data = data[2:]
		case !utf16.IsSurrogate(r):
			data = data[escapedLen:]
		default:
			low, ok := escaped(data[escapedLen:])
			if !ok || utf16.DecodeRune(r, low) == utf8.RuneError {
				return ErrSurrogate
			}
			data = data[2*escapedLen:]
		}
	}
}

const escapedLen = len(`\u0000`)

// escaped decodes a \u escape at the start of a text.
func escaped(data []byte) (rune, bool) {
	if len(data) < escapedLen || data[0] != '\\' || data[1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(data[2:escapedLen]), 16, 16)
	return rune(n), err == nil
}

// UnmarshalStrict decodes JSON and refuses invalid characters.
func UnmarshalStrict(data []byte, v any) error {
	if err := checkJSONText(data); err != nil {
		return err
	}
	return json.Unmarshal(data, v) //nolint:wrapcheck // the caller tells its kinds apart
}
