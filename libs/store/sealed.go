package store

import "github.com/carillon-timer/carillon/libs/timer"

// MaskSealed returns a definition with the same mark in place of every sealed text, and how many
// there are. Two definitions whose unsealed forms are the same differ in sealed text alone.
func MaskSealed(d timer.Definition) (timer.Definition, int) {
	n := 0
	mark := func(s timer.Sealed) timer.Sealed {
		if s == "" {
			return ""
		}
		n++
		return "sealed"
	}
	d = d.MapSealed(mark)
	return d, n
}
