package ui

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/libs/yamltext"
	"github.com/carillon-timer/carillon/services/api/definition"
	"github.com/carillon-timer/carillon/services/api/input"
)

// document is the definition of a timer as YAML. Changes keep its order and comments.
type document struct{ root *yaml.Node }

// setByTheService are the fields of an answer that a definition does not have.
var setByTheService = []string{
	"id", "app", "version", "paused", "fires_created", "next_due", "last_fired", "last_outcome",
	"active_since", "created_at", "updated_at", "warnings", "dry_run", "upcoming",
	"unreadable",
}

// parseDocument reads what a viewer has entered. It refuses what aliases make too long before the form
// shows it, which writes them out.
func parseDocument(text string) (*document, error) {
	if err := yamltext.CheckLength([]byte(text), input.MaxRequestBytes); err != nil {
		return nil, err //nolint:wrapcheck // it names the line, or says what to do
	}
	n, err := yamltext.Decode([]byte(text))
	if err != nil {
		return nil, err //nolint:wrapcheck // it names the line
	}
	if len(n.Content) != 1 || n.Content[0].Kind != yaml.MappingNode {
		return nil, errors.New("yaml: expected fields of a timer, such as name: send-invoices")
	}
	return &document{n.Content[0]}, nil
}

// documentOf returns the definition in an answer of the API.
func documentOf(answer json.RawMessage) (*document, error) {
	n, err := yamltext.FromJSON(answer)
	if err != nil {
		return nil, fmt.Errorf("reading a definition: %w", err)
	}
	if n.Kind != yaml.MappingNode {
		return nil, errors.New("reading a definition: expected an object")
	}
	d := &document{n}
	if s := d.text("status"); s != "active" && s != "inactive" {
		d.remove("status") // a definition cannot pause
	}
	for _, name := range setByTheService {
		d.remove(name)
	}
	return d, nil
}

// String returns the YAML.
func (d *document) String() string {
	var b strings.Builder
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	err := e.Encode(d.root)
	if err = errors.Join(err, e.Close()); err != nil {
		return "# " + err.Error()
	}
	return b.String()
}

// body returns the document as the API takes it, without some fields, or what is wrong with the YAML.
func (d *document) body(app string, without ...string) (json.RawMessage, error) {
	// The form may have made longer what an alias stands for, which is refused here, too.
	b, err := definition.DocumentJSON([]byte(d.String()))
	if err != nil {
		return nil, err //nolint:wrapcheck // it names the line
	}
	fields := make(map[string]json.RawMessage)
	if err := json.Unmarshal(b, &fields); err != nil {
		return nil, fmt.Errorf("yaml: %w", err)
	}
	for _, name := range without {
		delete(fields, name)
	}
	fields["app"], _ = json.Marshal(app) // a string is always JSON
	return json.Marshal(fields)          //nolint:wrapcheck // so is JSON
}

// find returns the node at a path, or nil.
func (d *document) find(path ...string) *yaml.Node {
	n := d.root
	for _, name := range path {
		if n = deref(n); n == nil || n.Kind != yaml.MappingNode {
			return nil
		}
		i := indexOf(n, name)
		if i < 0 {
			return nil
		}
		n = n.Content[i+1]
	}
	return deref(n)
}

// deref follows an alias.
func deref(n *yaml.Node) *yaml.Node {
	if n != nil && n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// indexOf returns the place of a field's name in a mapping, or -1.
func indexOf(n *yaml.Node, name string) int {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			return i
		}
	}
	return -1
}

// text returns a scalar, or nothing.
func (d *document) text(path ...string) string {
	if n := d.find(path...); n != nil && n.Kind == yaml.ScalarNode && n.Tag != "!!null" {
		return n.Value
	}
	return ""
}

// list returns the scalars of a sequence.
func (d *document) list(path ...string) (items []string) {
	n := d.find(path...)
	if n == nil || n.Kind != yaml.SequenceNode {
		return nil
	}
	for _, c := range n.Content {
		items = append(items, deref(c).Value)
	}
	return items
}

// pair is a field of a mapping, which the form shows as name=value.
type pair struct{ name, value string }

func (p pair) String() string { return p.name + "=" + p.value }

// pairs returns the fields of a mapping.
func (d *document) pairs(path ...string) (items []pair) {
	n := d.find(path...)
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		items = append(items, pair{n.Content[i].Value, deref(n.Content[i+1]).Value})
	}
	return items
}

// readPairs reads a text with name=value on each line. Names may have a "=", too, so the mapping at the
// path decides what a line means: a line that it has stays what it was, and another one begins with the
// longest name that it has. Where it has none of these, the first "=" ends the name.
func (d *document) readPairs(text string, path ...string) (items []pair) {
	had, names := make(map[string][]pair), make(map[string]bool) // two fields may look the same
	for _, p := range d.pairs(path...) {
		had[p.String()] = append(had[p.String()], p)
		names[p.name] = true
	}
	var changed []int // items that the mapping does not have
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if same := had[line]; len(same) > 0 {
			items, had[line] = append(items, same[0]), same[1:]
		} else if line != "" {
			changed = append(changed, len(items))
			items = append(items, pair{value: line})
		}
	}
	for _, i := range changed {
		items[i] = cutPair(items[i].value, names)
	}
	return slices.DeleteFunc(items, func(p pair) bool { return p.name == "" })
}

// cutPair cuts a line after the longest of some names, or at the first "=". The API takes no longer
// names than those that are tried.
func cutPair(line string, names map[string]bool) pair {
	for end := min(len(line)-1, timer.MaxLabelLen); end > 0; end-- {
		if line[end] == '=' && names[line[:end]] {
			return pair{line[:end], line[end+1:]}
		}
	}
	name, value, _ := strings.Cut(line, "=")
	return pair{name, value}
}

// remove removes a field. What held it stays, unless it is empty.
func (d *document) remove(path ...string) {
	last := len(path) - 1
	in := d.find(path[:last]...)
	if in == nil || in.Kind != yaml.MappingNode {
		return
	}
	if i := indexOf(in, path[last]); i >= 0 {
		in.Content = slices.Delete(in.Content, i, i+2)
	}
	if len(in.Content) == 0 && last > 0 {
		d.remove(path[:last]...)
	}
}

// set sets a field; what holds it is created.
func (d *document) set(value *yaml.Node, path ...string) {
	n := d.root
	for i, name := range path {
		at := indexOf(n, name)
		if at < 0 {
			n.Content = append(n.Content, yamltext.Text(name), &yaml.Node{Kind: yaml.MappingNode})
			at = len(n.Content) - 2
		}
		if i == len(path)-1 {
			n.Content[at+1] = value
			return
		}
		in := deref(n.Content[at+1])
		if in.Kind != yaml.MappingNode {
			in = &yaml.Node{Kind: yaml.MappingNode}
			n.Content[at+1] = in
		}
		n = in
	}
}
