package backup

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"unicode/utf8"
)

// binary are bytes that are no UTF-8.
type binary struct {
	Base64 []byte `json:"base64"`
}

// encodeRow replaces the values of a row by what JSON has for them.
func encodeRow(row []any) error {
	for i, v := range row {
		switch v := v.(type) {
		case nil, int64:
		case []byte:
			if utf8.Valid(v) {
				row[i] = string(v)
			} else {
				row[i] = binary{v}
			}
		default:
			return fmt.Errorf("column %d has a value of type %T, which backups do not know", i+1, v)
		}
	}
	return nil
}

// decodeRow replaces what JSON has by the values of a row.
func decodeRow(row []any) error {
	for i, v := range row {
		switch v := v.(type) {
		case nil:
		case json.Number:
			n, err := v.Int64()
			if err != nil {
				return fmt.Errorf("column %d: %w", i+1, err)
			}
			row[i] = n
		case string:
			row[i] = []byte(v)
		case map[string]any:
			text, ok := v["base64"].(string)
			if !ok || len(v) != 1 {
				return fmt.Errorf("column %d is an object without base64", i+1)
			}
			b, err := base64.StdEncoding.Strict().DecodeString(text)
			if err != nil {
				return fmt.Errorf("column %d: %w", i+1, err)
			}
			row[i] = b
		default:
			return fmt.Errorf("column %d is of type %T", i+1, v)
		}
	}
	return nil
}
