package encryption

import (
	"errors"
	"maps"
	"slices"

	"github.com/carillon-timer/carillon/libs/timer"
)

// Others returns the ring with each other of its keys first, in the order of their ids: what they
// seal is what this ring sealed, or will, before or after a rotation.
func (r *Keyring) Others() []*Keyring {
	var out []*Keyring
	for _, id := range slices.Sorted(maps.Keys(r.keys)) {
		if id != r.first {
			out = append(out, &Keyring{keys: r.keys, first: id})
		}
	}
	return out
}

// ReencryptDefinition returns a definition of an app's with every secret under the first key; changed
// tells whether one was not. d and what it points to stay as they are. Where one cannot be opened,
// the error says why, and the others are sealed anew all the same.
func (r *Keyring) ReencryptDefinition(
	d timer.Definition,
	app string,
) (_ timer.Definition, changed bool, err error) {
	binding := Binding{App: app, Use: UseTarget}
	d = d.MapSealed(func(s timer.Sealed) timer.Sealed {
		fresh, did, e := r.Reencrypt(s, binding)
		err, changed = errors.Join(err, e), changed || did
		return fresh
	})
	return d, changed, err
}
