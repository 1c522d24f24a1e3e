package store

import "github.com/carillon-timer/carillon/libs/timer"

// MaskSealed returns a definition with one placeholder for every encrypted text, and how many there
// are. Two definitions with equal masked forms differ in encrypted text alone.
func MaskSealed(d timer.Definition) (timer.Definition, int) {
	n := 0
	mask := func(s timer.Sealed) timer.Sealed {
		if s == "" {
			return ""
		}
		n++
		return "sealed"
	}
	d = d.MapSealed(mask)
	return d, n
}
