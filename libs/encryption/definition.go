package encryption

import (
	"errors"
	"maps"
	"slices"

	"github.com/carillon-timer/carillon/libs/timer"
)

// Others returns, for each other key of the keyring, a keyring with that key first, in the order of
// ids. Their encrypted texts are those from before or after a rotation.
func (r *Keyring) Others() []*Keyring {
	var out []*Keyring
	for _, id := range slices.Sorted(maps.Keys(r.keys)) {
		if id != r.first {
			out = append(out, &Keyring{keys: r.keys, first: id})
		}
	}
	return out
}

// ReencryptDefinition returns an app's definition with every secret under the first key. changed
// tells whether any was not. d and what it points to stay unchanged. If a secret cannot be
// decrypted, the error says why, and the others are still reencrypted.
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
