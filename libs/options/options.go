// Package options checks the Options of services. Settings left at zero get their default, and all
// missing parts are reported at once.
package options

import (
	"errors"
	"fmt"
)

// Default sets a setting that has its zero value.
func Default[T comparable](setting *T, value T) {
	var zero T
	if *setting == zero {
		*setting = value
	}
}

// Check collects the errors in the options of one owner.
type Check struct {
	owner string
	errs  []error
}

// Of begins a check.
func Of(owner string) *Check { return &Check{owner: owner} }

// Need adds an error if a part is missing.
func (c *Check) Need(name string, missing bool) {
	if missing {
		c.errs = append(c.errs, fmt.Errorf("%s: %s is missing", c.owner, name))
	}
}

// Refuse adds an error if a setting is invalid.
func (c *Check) Refuse(refused bool, why string) {
	if refused {
		c.errs = append(c.errs, fmt.Errorf("%s: %s", c.owner, why))
	}
}

// Err returns all errors, joined, or nil.
func (c *Check) Err() error { return errors.Join(c.errs...) }
