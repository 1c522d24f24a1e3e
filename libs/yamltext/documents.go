package yamltext

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"

	"go.yaml.in/yaml/v3"
)

// The formats of a text with several documents.
const (
	YAML   = "yaml"   // separated by lines with ---
	NDJSON = "ndjson" // a line of JSON for each
)

// separator is a line that begins a YAML document. A text may be of any system, so it may end in \r.
var separator = regexp.MustCompile(`(?m)^---[ \t]*(#.*)?\r?$`)

// Split returns the documents of a text without empty ones, which Decode reads. Without a format, a
// text whose first line is a whole JSON object is NDJSON. Other marks of YAML separate nothing here,
// such as ... or --- before text on the same line: Decode refuses what they join.
func Split(text []byte, format string) (docs [][]byte) {
	first, _, _ := bytes.Cut(bytes.TrimSpace(text), []byte("\n"))
	if format == "" && bytes.HasPrefix(first, []byte("{")) && json.Valid(first) {
		format = NDJSON
	}
	if format == NDJSON {
		docs = bytes.Split(text, []byte("\n"))
	} else {
		from := 0
		for _, at := range separator.FindAllIndex(text, -1) {
			docs = append(docs, text[from:at[0]])
			from = at[1]
		}
		docs = append(docs, text[from:])
	}
	return slices.DeleteFunc(docs, isEmpty)
}

// isEmpty reports whether a document has nothing but comments.
func isEmpty(doc []byte) bool {
	for line := range bytes.Lines(doc) {
		if line = bytes.TrimSpace(line); len(line) > 0 && line[0] != '#' {
			return false
		}
	}
	return true
}

// Decode returns the only document of a text; its kind is 0 if there is none. It refuses more than
// one, because the readers of YAML leave out what follows the first.
func Decode(text []byte) (*yaml.Node, error) {
	var first, second yaml.Node
	d := yaml.NewDecoder(bytes.NewReader(text))
	err := d.Decode(&first)
	if errors.Is(err, io.EOF) {
		return &first, nil
	}
	if err != nil {
		return nil, err //nolint:wrapcheck // it names the line
	}
	// Between documents without a mark, such as two JSON objects, the decoder finds an error.
	err = d.Decode(&second)
	if errors.Is(err, io.EOF) {
		return &first, nil
	}
	place := "after it"
	if err == nil {
		place = fmt.Sprintf("in line %d", second.Line)
	}
	return nil, fmt.Errorf(
		"yaml: expected one document, found more %s: leave it out, or, where a file "+
			"may have several documents, put --- on a line of its own before it",
		place,
	)
}
