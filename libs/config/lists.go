package config

import "strings"

// List registers a setting of several texts, separated by commas.
func (s *Set) List(to *[]string, name, def, usage string) {
	s.list(to, name, def, usage, func(v string) []string { return strings.Split(v, ",") }, ",")
}

// Rules registers a setting of several rules such as host:443,8443, separated by commas or blanks.
// A part that consists only of digits and dashes continues the ports of the rule before it.
func (s *Set) Rules(to *[]string, name, def, usage string) {
	s.list(to, name, def, usage, func(v string) []string {
		var rules []string
		for _, part := range strings.FieldsFunc(v, func(c rune) bool { return c == ',' || c <= ' ' }) {
			if n := len(rules); n > 0 && strings.Trim(part, "0123456789-") == "" {
				rules[n-1] += "," + part
				continue
			}
			rules = append(rules, part)
		}
		return rules
	}, " ")
}

func (s *Set) list(
	to *[]string,
	name, def, usage string,
	split func(string) []string,
	separator string,
) {
	parse := func(v string) error {
		*to = nil
		for _, part := range split(v) {
			if part = strings.TrimSpace(part); part != "" {
				*to = append(*to, part)
			}
		}
		return nil
	}
	_ = parse(def)
	s.add(
		&value{
			name:  name,
			parse: parse,
			show:  func() string { return strings.Join(*to, separator) },
		},
		usage,
	)
}
