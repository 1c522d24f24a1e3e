package yamltext

import (
	"fmt"

	"go.yaml.in/yaml/v3"
)

// CheckLength refuses a YAML document whose keys and values have more than most bytes once each
// alias is written out, as a conversion to JSON does: a few kilobytes can stand for gigabytes. Each
// node counts one more byte, so that empty ones count, too. The limits of the YAML libraries are for
// the number of aliases, and do not see that what they stand for is long. It also refuses an anchor
// within itself, and what Decode refuses.
func CheckLength(text []byte, most int) error {
	root, err := Decode(text)
	if err != nil {
		return err
	}
	l := lengths{most: most, anchors: make(map[*yaml.Node]int)}
	if l.of(root) > most {
		return fmt.Errorf(
			"yaml: expected at most %d bytes with all aliases (*name) written out, found more: "+
				"shorten the document, or write fewer aliases", most)
	}
	return nil
}

// lengths adds up what nodes stand for. It visits each node once.
type lengths struct {
	most    int
	anchors map[*yaml.Node]int // an alias comes after its anchor
}

// of returns the length of a node, at most one more than the most.
func (l *lengths) of(n *yaml.Node) int {
	if n.Kind == yaml.AliasNode {
		return l.anchors[n.Alias]
	}
	if n.Anchor != "" {
		l.anchors[n] = l.most + 1 // for an alias within
	}
	sum := len(n.Value) + 1
	for _, c := range n.Content {
		sum = min(sum+l.of(c), l.most+1)
	}
	if n.Anchor != "" {
		l.anchors[n] = sum
	}
	return sum
}
