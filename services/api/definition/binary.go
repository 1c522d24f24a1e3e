package definition

import (
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/carillon-timer/carillon/libs/yamltext"
)

// checkBinary refuses values of !!binary that are no UTF-8. In JSON they would
// become other bytes. Those that are text are read as that text. JSON has no such values.
func checkBinary(text []byte) error {
	root, err := yamltext.Decode(text)
	if err != nil {
		return err //nolint:wrapcheck // it names the line
	}
	return checkNode(root, "")
}

// checkNode checks a node and those below it. path is its field, such as "target.body".
func checkNode(n *yaml.Node, path string) error {
	switch n.Kind {
	case yaml.ScalarNode:
		if n.ShortTag() == "!!binary" && !isText(n.Value) {
			remedy := "leave the tag out, and give a text"
			if path == "body" || strings.HasSuffix(path, ".body") {
				remedy = "give the same base64 as " + path + "_base64, without the tag"
			}
			return fmt.Errorf("line %d: %s: expected UTF-8 text, found bytes of !!binary: %s",
				n.Line, path, remedy)
		}
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := n.Content[i]
			at := strings.TrimPrefix(path+"."+key.Value, ".")
			for _, part := range []*yaml.Node{key, n.Content[i+1]} {
				if err := checkNode(part, at); err != nil {
					return err
				}
			}
		}
	case yaml.SequenceNode:
		for i, item := range n.Content {
			if err := checkNode(item, path+"["+strconv.Itoa(i)+"]"); err != nil {
				return err
			}
		}
	case yaml.DocumentNode:
		for _, part := range n.Content {
			if err := checkNode(part, path); err != nil {
				return err
			}
		}
	case yaml.AliasNode: // its anchor is checked
	}
	return nil
}

// isText reports whether base64 stands for UTF-8 text. What is no base64 the reader has refused.
func isText(encoded string) bool {
	data, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(encoded), ""))
	return err != nil || utf8.Valid(data)
}
