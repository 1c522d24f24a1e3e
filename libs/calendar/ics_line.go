package calendar

import (
	"fmt"
	"strings"
)

// icsProperty is a content line of an iCalendar file: NAME;PARAMETER=value:value. Names are
// converted to upper case.
type icsProperty struct {
	name   string
	params map[string]string // the first value of each
	value  string
	line   int // first line in the file, from 1
}

func (p *icsProperty) wrong(format string, args ...any) error {
	return fmt.Errorf("line %d: %s: %w", p.line, p.name, fmt.Errorf(format, args...))
}

// icsObject is the relevant part of a VCALENDAR. A file may have several.
type icsObject struct {
	properties []icsProperty
	events     []icsEvent
	zones      []icsZone
}

// icsEvent is a VEVENT without nested components, or a similar component.
type icsEvent struct {
	line       int
	properties []icsProperty
}

func (e *icsEvent) all(name string) []*icsProperty {
	var out []*icsProperty
	for i := range e.properties {
		if e.properties[i].name == name {
			out = append(out, &e.properties[i])
		}
	}
	return out
}

// first returns the first property of a name, or nil.
func (e *icsEvent) first(name string) *icsProperty {
	if found := e.all(name); len(found) > 0 {
		return found[0]
	}
	return nil
}

func (e *icsEvent) text(name string) string {
	if p := e.first(name); p != nil {
		return strings.NewReplacer(`\\`, `\`, `\n`, " ", `\N`, " ", `\,`, ",", `\;`, ";").
			Replace(p.value)
	}
	return ""
}

// maxNested is how many components may be within each other. The standard needs three.
const maxNested = 10

// readObjects reads the components of a file. Text between components violates the standard but is
// common. It is treated as properties of the calendar.
func readObjects(file string) ([]icsObject, error) {
	var out []icsObject
	var within []string // the open components
	line := 1
	for rest := strings.TrimPrefix(file, "\ufeff"); rest != ""; {
		text, lines, after := unfold(rest)
		at := line
		line, rest = line+lines, after
		if strings.TrimSpace(text) == "" {
			continue
		}
		if len(within) == 0 && !strings.EqualFold(strings.TrimSpace(text), "BEGIN:VCALENDAR") {
			return nil, fmt.Errorf("line %d: expected BEGIN:VCALENDAR, found %q", at, clip(text))
		}
		p, err := readProperty(text)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", at, err)
		}
		p.line = at
		component := strings.ToUpper(strings.TrimSpace(p.value))
		switch {
		case p.name == "BEGIN":
			if len(within) == 0 {
				out = append(out, icsObject{})
			}
			if within = append(within, component); len(within) > maxNested {
				return nil, fmt.Errorf(
					"line %d: expected at most %d components within each other, found another",
					at,
					maxNested,
				)
			}
			out[len(out)-1].begin(within, at)
		case p.name == "END" && component != within[len(within)-1]:
			return nil, fmt.Errorf(
				"line %d: expected END:%s, found %q",
				at,
				within[len(within)-1],
				clip(text),
			)
		case p.name == "END":
			within = within[:len(within)-1]
		default:
			out[len(out)-1].add(within, p)
		}
	}
	switch {
	case len(within) > 0:
		return nil, fmt.Errorf(
			"line %d: expected END:%s, found the end of the file",
			line,
			within[len(within)-1],
		)
	case len(out) == 0:
		return nil, fmt.Errorf("line %d: expected BEGIN:VCALENDAR, and it is empty", line)
	}
	return out, nil
}

// begin handles the start of a component, if it is relevant.
func (o *icsObject) begin(within []string, line int) {
	switch strings.Join(within[1:], " ") {
	case "VEVENT":
		o.events = append(o.events, icsEvent{line: line})
	case "VTIMEZONE":
		o.zones = append(o.zones, icsZone{icsEvent: icsEvent{line: line}})
	case "VTIMEZONE STANDARD", "VTIMEZONE DAYLIGHT":
		z := &o.zones[len(o.zones)-1]
		z.changes = append(z.changes, icsEvent{line: line})
	}
}

// add adds a property to the calendar or to a relevant component, and ignores others.
func (o *icsObject) add(within []string, p icsProperty) {
	var e *icsEvent
	switch strings.Join(within[1:], " ") {
	case "":
		o.properties = append(o.properties, p)
		return
	case "VEVENT":
		e = &o.events[len(o.events)-1]
	case "VTIMEZONE":
		e = &o.zones[len(o.zones)-1].icsEvent
	case "VTIMEZONE STANDARD", "VTIMEZONE DAYLIGHT":
		z := &o.zones[len(o.zones)-1]
		e = &z.changes[len(z.changes)-1]
	default:
		return
	}
	e.properties = append(e.properties, p)
}

// unfold returns a content line, its number of lines in the file, and the rest. A line that begins
// with a space or a tab continues the previous one.
func unfold(rest string) (text string, lines int, after string) {
	var whole strings.Builder
	for {
		one, next, _ := strings.Cut(rest, "\n")
		whole.WriteString(strings.TrimSuffix(one, "\r"))
		lines++
		if next == "" || next[0] != ' ' && next[0] != '\t' {
			return whole.String(), lines, next
		}
		rest = next[1:]
	}
}

// readProperty parses a content line. Its error has the byte offset.
func readProperty(text string) (icsProperty, error) {
	at := nameEnd(text, 0)
	if at == 0 {
		return icsProperty{}, expectedAt(text, 0, "the name of a property such as DTSTART")
	}
	p := icsProperty{name: strings.ToUpper(text[:at]), params: map[string]string{}}
	for at < len(text) && text[at] == ';' {
		end := nameEnd(text, at+1)
		if end == at+1 || end == len(text) || text[end] != '=' {
			return p, expectedAt(text, end, "a parameter such as VALUE=DATE")
		}
		name := strings.ToUpper(text[at+1 : end])
		value, after, err := paramValues(text, end+1)
		if err != nil {
			return p, err
		}
		if _, ok := p.params[name]; !ok {
			p.params[name] = value
		}
		at = after
	}
	if at == len(text) || text[at] != ':' {
		return p, expectedAt(text, at, `":" and a value`)
	}
	p.value = text[at+1:]
	return p, nil
}

// paramValues parses the values of a parameter, with or without quotes, and returns the first.
func paramValues(text string, at int) (first string, after int, err error) {
	for n := 0; ; n++ {
		from, end := at, at
		if at < len(text) && text[at] == '"' {
			length := strings.IndexByte(text[at+1:], '"')
			if length < 0 {
				return "", 0, expectedAt(text, len(text), "the closing quote of a parameter")
			}
			from, end = at+1, at+1+length
			at = end + 1
		} else {
			for end < len(text) && !strings.ContainsRune(",;:", rune(text[end])) {
				end++
			}
			at = end
		}
		if n == 0 {
			first = text[from:end]
		}
		if at >= len(text) || text[at] != ',' {
			return first, at, nil
		}
		at++
	}
}

func nameEnd(text string, at int) int {
	for at < len(text) {
		c := text[at] | 0x20 // lower case
		if (c < 'a' || c > 'z') && (text[at] < '0' || text[at] > '9') && text[at] != '-' &&
			text[at] != '_' {
			break
		}
		at++
	}
	return at
}

func expectedAt(text string, at int, what string) error {
	if at >= len(text) {
		return fmt.Errorf("at %d: expected %s, found the end of the line", at, what)
	}
	return fmt.Errorf("at %d: expected %s, found %q", at, what, clip(text[at:]))
}
