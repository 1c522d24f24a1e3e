package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/carillon-timer/carillon/libs/yamltext"
)

// pair is a setting in a file.
type pair struct{ name, text string }

// flatten parses a YAML mapping. It joins names of nested mappings with dashes, and lists with
// commas. Values are taken as they are written, like those of flags: YAML's own types would make 83
// of 0123, and another text of an instant.
func flatten(data []byte) ([]pair, error) {
	root, err := yamltext.Decode(data)
	if err != nil {
		return nil, fmt.Errorf("not a YAML mapping of settings: %w", err)
	}
	// Decoding also refuses what the walk would not see: a name given twice, and too many aliases.
	var mapping map[string]any
	if err := root.Decode(&mapping); !root.IsZero() && err != nil {
		return nil, fmt.Errorf("not a YAML mapping of settings: %w", err)
	}
	if len(mapping) == 0 {
		return nil, nil
	}
	pairs, err := walk(nil, "", root.Content[0])
	slices.SortFunc(pairs, func(a, b pair) int { return strings.Compare(a.name, b.name) })
	return pairs, err
}

func walk(pairs []pair, prefix string, m *yaml.Node) ([]pair, error) {
	var err error
	for i := 0; i+1 < len(m.Content); i += 2 {
		name := prefix + strings.ReplaceAll(m.Content[i].Value, "_", "-")
		v := resolved(m.Content[i+1])
		switch {
		case m.Content[i].Tag == "!!merge":
			return nil, errors.New("merge keys (<<) are not read: repeat the settings")
		case v.Tag == "!!null":
		case v.Kind == yaml.MappingNode:
			if pairs, err = walk(pairs, name+"-", v); err != nil {
				return nil, err
			}
		case v.Kind == yaml.SequenceNode:
			texts := make([]string, len(v.Content))
			for i, item := range v.Content {
				if item = resolved(item); item.Kind != yaml.ScalarNode {
					return nil, fmt.Errorf("%s: a list of texts is wanted", name)
				}
				texts[i] = item.Value
			}
			pairs = append(pairs, pair{name, strings.Join(texts, ",")})
		default:
			pairs = append(pairs, pair{name, v.Value})
		}
	}
	return pairs, nil
}

// resolved returns what an alias stands for.
func resolved(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}
