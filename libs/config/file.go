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
type pair struct {
	name, text string
	spelling   string // the names in the file, outermost first
	line       int
}

// place says where a setting is, and how it is spelled there.
func (p *pair) place() string { return fmt.Sprintf("%s in line %d", p.spelling, p.line) }

// twice returns an error for a setting that the one before it gives, too. YAML refuses a name that is
// given twice, but not two spellings of one name.
func (p *pair) twice(before *pair) error {
	if before.name != p.name {
		return nil
	}
	return fmt.Errorf(
		"%s: given twice, as %s and as %s: keep one of them",
		p.name, before.place(), p.place(),
	)
}

// flatten parses a YAML mapping. It joins names of nested mappings with dashes, and lists with
// commas. Values are taken as they are written, like those of flags: YAML's own types would make 83
// of 0123, and another text of an instant. Settings are in order of name, then as they are written.
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
	pairs, err := walk(nil, pair{}, root.Content[0])
	slices.SortStableFunc(pairs, func(a, b pair) int { return strings.Compare(a.name, b.name) })
	return pairs, err
}

// walk adds the settings of a mapping, whose own name is outer's.
func walk(pairs []pair, outer pair, m *yaml.Node) ([]pair, error) {
	var err error
	for i := 0; i+1 < len(m.Content); i += 2 {
		key := m.Content[i]
		p := pair{
			name:     outer.name + strings.ReplaceAll(key.Value, "_", "-"),
			spelling: outer.spelling + key.Value,
			line:     key.Line,
		}
		v := resolved(m.Content[i+1])
		switch {
		case key.Tag == "!!merge":
			return nil, errors.New("merge keys (<<) are not read: repeat the settings")
		case v.Tag == "!!null":
		case v.Kind == yaml.MappingNode:
			p.name, p.spelling = p.name+"-", p.spelling+": "
			if pairs, err = walk(pairs, p, v); err != nil {
				return nil, err
			}
		case v.Kind == yaml.SequenceNode:
			texts := make([]string, len(v.Content))
			for i, item := range v.Content {
				if item = resolved(item); item.Kind != yaml.ScalarNode {
					return nil, fmt.Errorf("%s: a list of texts is wanted", p.name)
				}
				texts[i] = item.Value
			}
			p.text = strings.Join(texts, ",")
			pairs = append(pairs, p)
		default:
			p.text = v.Value
			pairs = append(pairs, p)
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
