package importer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"
)

// decode reads entries: a JSON array, JSON objects one after the other (NDJSON), or an object with
// a list in one of the fields.
func decode[T any](data []byte, fields ...string) ([]T, error) {
	if !utf8.Valid(data) { // package json would replace bytes of texts
		return nil, errors.New("expected UTF-8 text: convert the file, such as by iconv")
	}
	data = bytes.TrimSpace(data)
	if bytes.HasPrefix(data, []byte("[")) {
		var all []T
		if err := json.Unmarshal(data, &all); err != nil {
			return nil, fmt.Errorf("expected a list of objects: %w", err)
		}
		return all, nil
	}
	var all []T
	d := json.NewDecoder(bytes.NewReader(data))
	for {
		var raw json.RawMessage
		if err := d.Decode(&raw); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, fmt.Errorf("expected JSON: %w", err)
		}
		var object map[string]json.RawMessage
		if err := json.Unmarshal(raw, &object); err != nil {
			return nil, fmt.Errorf("expected objects: %w", err)
		}
		inner := raw
		for _, field := range fields {
			if list, ok := object[field]; ok && bytes.HasPrefix(list, []byte("[")) {
				inner = list
			}
		}
		if bytes.HasPrefix(inner, []byte("[")) {
			var some []T
			if err := json.Unmarshal(inner, &some); err != nil {
				return nil, fmt.Errorf("expected a list of objects: %w", err)
			}
			all = append(all, some...)
			continue
		}
		var one T
		if err := json.Unmarshal(inner, &one); err != nil {
			return nil, fmt.Errorf("expected objects: %w", err)
		}
		all = append(all, one)
	}
}
