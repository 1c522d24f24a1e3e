// Package options is what the Options of every service have in common: settings left at zero get
// their default, and parts that are missing are named, all of them at once.
package options

import (
	"errors"
	"fmt"
)

// Default sets a setting that was left at its zero value.
func Default[T comparable](setting *T, value T) {
	var zero T
	if *setting == zero {
		*setting = value
	}
}

// Check collects what is wrong with the options of one owner.
type Check struct {
	owner string
	errs  []error
}

// Of begins a check.
func Of(owner string) *Check { return &Check{owner: owner} }

// Need notes that a part is missing.
func (c *Check) Need(name string, missing bool) {
	if missing {
		c.errs = append(c.errs, fmt.Errorf("%s: %s is missing", c.owner, name))
	}
}

// Refuse notes a setting that cannot be.
func (c *Check) Refuse(refused bool, why string) {
	if refused {
		c.errs = append(c.errs, fmt.Errorf("%s: %s", c.owner, why))
	}
}

// Err returns all that was noted, or nil.
func (c *Check) Err() error { return errors.Join(c.errs...) }
