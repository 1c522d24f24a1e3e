package config

import (
	"fmt"
	"strconv"
)

// Tri is a boolean that may be left to the program.
type Tri string

// Values of Tri.
const (
	Unset Tri = "auto"
	Yes   Tri = "true"
	No    Tri = "false"
)

// Tri registers a boolean whose default, auto, leaves it to the program.
func (s *Set) Tri(to *Tri, name, usage string) {
	*to = Unset
	s.add(&value{
		name: name, isBool: true,
		parse: func(v string) error {
			if v == string(Unset) {
				*to = Unset
				return nil
			}
			yes, err := strconv.ParseBool(v)
			if err != nil {
				return fmt.Errorf("%q is none of true, false and auto", v)
			}
			*to = No
			if yes {
				*to = Yes
			}
			return nil
		},
		show: func() string { return string(*to) },
	}, usage)
}
