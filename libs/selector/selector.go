package selector

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// Limits of a selector.
const (
	MaxLen          = 4096 // bytes of its text
	MaxRequirements = 16
	MaxValues       = 32 // values of one requirement
)

// Operator is how a requirement compares.
type Operator string

// The operators. The texts a=b and a!=b are In and NotIn with one value.
const (
	In        Operator = "in"
	NotIn     Operator = "notin"
	Exists    Operator = "exists"
	NotExists Operator = "!"
)

// Requirement is a condition about one label.
type Requirement struct {
	Name     string
	Operator Operator
	Values   []string // of In and NotIn: at least one, sorted and distinct
}

// Selector is requirements that must all hold, sorted by name. An empty one selects everything.
type Selector []Requirement

// Matches reports whether labels meet all requirements.
func (s Selector) Matches(labels map[string]string) bool {
	for i := range s {
		if !s[i].Matches(labels) {
			return false
		}
	}
	return true
}

// Matches reports whether labels meet the requirement.
func (r *Requirement) Matches(labels map[string]string) bool {
	value, ok := labels[r.Name]
	switch r.Operator {
	case In:
		return ok && slices.Contains(r.Values, value)
	case NotIn:
		return !ok || !slices.Contains(r.Values, value)
	case Exists:
		return ok
	case NotExists:
		return !ok
	}
	return false
}

// String returns the text of the selector in canonical form. Parse reads it back.
func (s Selector) String() string {
	var b strings.Builder
	for i := range s {
		if i > 0 {
			b.WriteByte(',')
		}
		s[i].write(&b)
	}
	return b.String()
}

// String returns the text of the requirement.
func (r *Requirement) String() string {
	var b strings.Builder
	r.write(&b)
	return b.String()
}

func (r *Requirement) write(b *strings.Builder) {
	if r.Operator == NotExists {
		b.WriteByte('!')
	}
	b.WriteString(quoted(r.Name))
	switch {
	case r.Operator == In && len(r.Values) == 1:
		b.WriteString("=" + quoted(r.Values[0]))
	case r.Operator == NotIn && len(r.Values) == 1:
		b.WriteString("!=" + quoted(r.Values[0]))
	case r.Operator == In || r.Operator == NotIn:
		b.WriteString(" " + string(r.Operator) + " (")
		for i, v := range r.Values {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString(quoted(v))
		}
		b.WriteByte(')')
	}
}

// quoted returns a name or value as Parse takes it: in quotes, unless it is a plain word.
func quoted(text string) string {
	if text == "" || strings.ContainsFunc(text, isSpecial) || strconv.Quote(text) != `"`+text+`"` {
		return strconv.Quote(text)
	}
	return text
}

// normalize sorts requirements and their values.
func normalize(s Selector) Selector {
	for i := range s {
		slices.Sort(s[i].Values)
		s[i].Values = slices.Compact(s[i].Values)
	}
	slices.SortStableFunc(s, func(a, b Requirement) int { return cmp.Compare(a.Name, b.Name) })
	return s
}
