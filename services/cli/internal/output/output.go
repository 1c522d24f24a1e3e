// Package output prints what commands show: as a table, JSON, YAML or by a JSONPath.
package output

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/ohler55/ojg/jp"

	"github.com/carillon-timer/carillon/libs/yamltext"
	"github.com/carillon-timer/carillon/services/cli/internal/client"
)

// Formats describes the formats, for the help of a flag.
const Formats = "table, wide, name, json, yaml or jsonpath=EXPRESSION"

// Column is a column of a table.
type Column struct {
	Head string
	Cell func(client.Object) string
	Wide bool // only in the format wide
}

// Field returns a column that shows a field.
func Field(head, name string) Column {
	return Column{Head: head, Cell: func(o client.Object) string { return o.Text(name) }}
}

// AsWide returns the column for the format wide only.
func (c Column) AsWide() Column {
	c.Wide = true
	return c
}

// Printer prints in one format. Its methods are not safe for concurrent use.
type Printer struct {
	format string
	path   jp.Expr
	out    io.Writer
	wrote  bool // a document, in the format yaml
}

// New returns a Printer for a format; the empty one is table.
func New(format string, out io.Writer) (*Printer, error) {
	p := &Printer{format: format, out: out}
	if format == "" {
		p.format = "table"
	}
	if text, ok := strings.CutPrefix(format, "jsonpath="); ok {
		text = strings.TrimSuffix(strings.TrimPrefix(text, "{"), "}") // as kubectl writes them
		if strings.HasPrefix(text, ".") || strings.HasPrefix(text, "[") {
			text = "$" + text
		}
		expr, err := jp.ParseString(text)
		if err != nil {
			return nil, fmt.Errorf("-o jsonpath: %w", err)
		}
		p.format, p.path = "jsonpath", expr
	}
	switch p.format {
	case "table", "wide", "name", "json", "yaml", "jsonpath":
		return p, nil
	default:
		return nil, fmt.Errorf("-o %s: expected %s", format, Formats)
	}
}

// Human reports whether the format is for people, who want to read sentences too.
func (p *Printer) Human() bool { return p.format == "table" || p.format == "wide" }

// List prints items: an object with the field items, or a line for each.
func (p *Printer) List(items []client.Object, columns []Column) error {
	return p.list(items, columns, nameOf)
}

// ListByID is List of items that other commands find by their id: the format name prints that.
func (p *Printer) ListByID(items []client.Object, columns []Column) error {
	return p.list(items, columns, idOf)
}

func (p *Printer) list(
	items []client.Object, columns []Column, name func(client.Object) string,
) error {
	switch p.format {
	case "table", "wide":
		return p.table(items, columns)
	case "name":
		return p.names(items, name)
	default:
		all := make([]any, len(items))
		for i := range items {
			all[i] = map[string]any(items[i])
		}
		return p.value(map[string]any{"items": all})
	}
}

// One prints an item. For people it is YAML, which shows all of it.
func (p *Printer) One(item client.Object) error { return p.one(item, nameOf) }

// OneByID is to One what ListByID is to List.
func (p *Printer) OneByID(item client.Object) error { return p.one(item, idOf) }

func (p *Printer) one(item client.Object, name func(client.Object) string) error {
	switch p.format {
	case "table", "wide":
		return p.yaml(item)
	case "name":
		return p.names([]client.Object{item}, name)
	default:
		return p.value(map[string]any(item))
	}
}

func nameOf(o client.Object) string { return cmp.Or(o.Text("name"), o.Text("id"), o.Text("app")) }

func idOf(o client.Object) string { return o.Text("id") }

func (p *Printer) names(items []client.Object, name func(client.Object) string) error {
	for _, o := range items {
		text := name(o)
		if text == "" {
			continue // it has none, and what was to be done is done
		}
		if _, err := fmt.Fprintln(p.out, text); err != nil {
			return err //nolint:wrapcheck // of the output
		}
	}
	return nil
}

func (p *Printer) table(items []client.Object, columns []Column) error {
	w := tabwriter.NewWriter(p.out, 0, 0, 3, ' ', 0) //nolint:mnd // the gap between columns
	line := func(cell func(Column) string) {
		var cells []string
		for _, c := range columns {
			if !c.Wide || p.format == "wide" {
				cells = append(cells, cell(c))
			}
		}
		fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	line(func(c Column) string { return c.Head })
	for _, o := range items {
		line(func(c Column) string {
			if text := c.Cell(o); text != "" {
				return text
			}
			return "-"
		})
	}
	return w.Flush() //nolint:wrapcheck // of the output
}

func (p *Printer) value(v any) error {
	switch p.format {
	case "json":
		e := json.NewEncoder(p.out)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		return e.Encode(v) //nolint:wrapcheck // of the output
	case "yaml":
		if p.wrote { // two documents without it would be one, with each field twice
			if _, err := fmt.Fprintln(p.out, "---"); err != nil {
				return err //nolint:wrapcheck // of the output
			}
		}
		p.wrote = true
		return p.yaml(v)
	default:
		for _, found := range p.path.Get(withNumbers(v)) {
			if err := p.print(found); err != nil {
				return err
			}
		}
		return nil
	}
}

// withNumbers returns a value with numbers that a JSONPath can compare: it takes a json.Number for
// a text. Numbers that would lose digits stay as they are.
func withNumbers(v any) any {
	switch v := v.(type) {
	case client.Object:
		return withNumbers(map[string]any(v))
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, field := range v {
			out[name] = withNumbers(field)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = withNumbers(v[i])
		}
		return out
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n
		}
		if f, err := v.Float64(); err == nil && strconv.FormatFloat(f, 'f', -1, 64) == v.String() {
			return f
		}
	}
	return v
}

// print prints what a JSONPath found: text and numbers as they are, the rest as JSON.
func (p *Printer) print(v any) error {
	switch v.(type) {
	case string, json.Number, int64, bool:
		_, err := fmt.Fprintln(p.out, v)
		return err //nolint:wrapcheck // of the output
	default:
		data, err := json.Marshal(v)
		if err != nil {
			return fmt.Errorf("encoding the output: %w", err)
		}
		_, err = fmt.Fprintf(p.out, "%s\n", data)
		return err //nolint:wrapcheck // of the output
	}
}

func (p *Printer) yaml(v any) error {
	data, err := yamltext.Marshal(v)
	if err != nil {
		return fmt.Errorf("encoding the output: %w", err)
	}
	_, err = p.out.Write(data)
	return err //nolint:wrapcheck // of the output
}
