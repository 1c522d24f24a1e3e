package config

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// pair is a setting in a file.
type pair struct{ name, text string }

// flatten parses a YAML mapping. It joins names of nested mappings with dashes, and lists with
// commas.
func flatten(data []byte) ([]pair, error) {
	var root map[string]any
	if err := yaml.NewDecoder(strings.NewReader(string(data))).
		Decode(&root); err != nil &&
		!errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("not a YAML mapping of settings: %w", err)
	}
	pairs, err := walk(nil, "", root)
	slices.SortFunc(pairs, func(a, b pair) int { return strings.Compare(a.name, b.name) })
	return pairs, err
}

func walk(pairs []pair, prefix string, m map[string]any) ([]pair, error) {
	var err error
	for name, v := range m {
		name = prefix + strings.ReplaceAll(name, "_", "-")
		switch v := v.(type) {
		case nil:
		case map[string]any:
			if pairs, err = walk(pairs, name+"-", v); err != nil {
				return nil, err
			}
		case []any:
			texts := make([]string, len(v))
			for i := range v {
				if _, nested := v[i].(map[string]any); nested {
					return nil, fmt.Errorf("%s: a list of texts is wanted", name)
				}
				texts[i] = fmt.Sprint(v[i])
			}
			pairs = append(pairs, pair{name, strings.Join(texts, ",")})
		default:
			pairs = append(pairs, pair{name, fmt.Sprint(v)})
		}
	}
	return pairs, nil
}
