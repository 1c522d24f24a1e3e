package input

import (
	"errors"

	"github.com/carillon-timer/carillon/libs/selector"
)

// ParseSelector reads the selector of a request; an empty text is none. It refuses a text of spaces
// only, which a selector without requirements would make a selection of everything.
func ParseSelector(text string) (selector.Selector, error) {
	s, err := selector.Parse(text)
	if err == nil && len(s) == 0 && text != "" {
		err = errors.New("expected a requirement such as team=pay, found only spaces")
	}
	return s, err //nolint:wrapcheck // it says where
}
