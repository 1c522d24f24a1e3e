// Command values writes the table of a chart's values into its README, from the comments in
// values.yaml:
//
//	cd deploy/tools && go run ./cmd/values ../../helm/carillon
//
// With -check it writes nothing, and fails where the README is not what it would write.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

const (
	begin = "<!-- values: begin (make generate) -->\n"
	end   = "<!-- values: end -->"
)

func main() {
	check := flag.Bool("check", false, "only compare")
	flag.Parse()
	if err := run(flag.Arg(0), *check); err != nil {
		fmt.Fprintln(os.Stderr, "values:", err)
		os.Exit(1)
	}
}

func run(chart string, check bool) error {
	values, err := os.ReadFile(filepath.Join(chart, "values.yaml"))
	if err != nil {
		return fmt.Errorf("reading the values: %w", err)
	}
	file := filepath.Join(chart, "README.md")
	readme, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("reading the README: %w", err)
	}
	t, err := table(values)
	if err != nil {
		return err
	}
	head, rest, ok := strings.Cut(string(readme), begin)
	_, tail, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		return fmt.Errorf("%s has no place for the values: %s…%s", file, begin, end)
	}
	now := []byte(head + begin + t + end + tail)
	if bytes.Equal(now, readme) {
		return nil
	}
	if check {
		return errors.New(file + " is not current: run make generate")
	}
	return os.WriteFile(file, now, 0o644) //nolint:gosec // part of the sources
}

// table returns a section for each top-level value with values below it, and one for the others.
func table(values []byte) (string, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(values, &doc); err != nil {
		return "", fmt.Errorf("reading the values: %w", err)
	}
	root := doc.Content[0]
	var plain, sections strings.Builder
	for i := 0; i < len(root.Content); i += 2 {
		key, value := root.Content[i], root.Content[i+1]
		if isLeaf(value) {
			row(&plain, key.Value, key, value)
			continue
		}
		fmt.Fprintf(&sections, "\n### %s\n\n", key.Value)
		if said := comment(key); said != "" {
			fmt.Fprintf(&sections, "%s\n\n", wrap(said))
		}
		sections.WriteString(heading)
		rows(&sections, key.Value, value)
	}
	return "\n" + heading + plain.String() + sections.String(), nil
}

const maxColumns = 100 // of prose; command docs checks it

// wrap breaks a text into lines at its blanks.
func wrap(text string) string {
	var b strings.Builder
	column := 0
	for word := range strings.FieldsSeq(text) {
		width := utf8.RuneCountInString(word)
		switch {
		case column == 0:
		case column+1+width > maxColumns:
			b.WriteByte('\n')
			column = 0
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += width
	}
	return b.String()
}

const heading = "| value | default | what |\n|---|---|---|\n"

func rows(b *strings.Builder, path string, m *yaml.Node) {
	for i := 0; i < len(m.Content); i += 2 {
		key, value := m.Content[i], m.Content[i+1]
		name := path + "." + key.Value
		if isLeaf(value) {
			row(b, name, key, value)
			continue
		}
		if said := comment(key); said != "" {
			fmt.Fprintf(b, "| `%s` | | %s |\n", name, said)
		}
		rows(b, name, value)
	}
}

func row(b *strings.Builder, name string, key, value *yaml.Node) {
	text := strings.ReplaceAll(flow(value), "|", "\\|")
	fmt.Fprintf(b, "| `%s` | `%s` | %s |\n", name, text, comment(key))
}

// isLeaf reports whether a value is shown as a whole: a scalar, a list, or a mapping on one line.
func isLeaf(n *yaml.Node) bool { return n.Kind != yaml.MappingNode || n.Style&yaml.FlowStyle != 0 }

// flow formats a value on one line.
func flow(n *yaml.Node) string {
	var parts []string
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i < len(n.Content); i += 2 {
			parts = append(parts, n.Content[i].Value+": "+flow(n.Content[i+1]))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case yaml.SequenceNode:
		for _, c := range n.Content {
			parts = append(parts, flow(c))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case yaml.ScalarNode, yaml.AliasNode, yaml.DocumentNode:
	}
	if n.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) != 0 {
		return fmt.Sprintf("%q", n.Value)
	}
	return n.Value
}

// comment returns the comment above a key, on one line. Of several paragraphs only the last is
// about the key.
func comment(key *yaml.Node) string {
	paragraphs := strings.Split(key.HeadComment, "\n\n")
	lines := strings.Split(paragraphs[len(paragraphs)-1], "\n")
	for i := range lines {
		lines[i] = strings.TrimSpace(strings.TrimPrefix(lines[i], "#"))
	}
	return strings.NewReplacer("|", "\\|", "<", "&lt;").
		Replace(strings.TrimSpace(strings.Join(lines, " ")))
}
