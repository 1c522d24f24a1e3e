package zone

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"time"
)

// rulesFrom is the instant from which on changes of a zone count as its rules: what was before can
// move no fire that is to come. It never changes: another value would be another fingerprint of
// every zone, and replan every timer once.
var rulesFrom = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Unix()

// Rules are the fingerprints of zones by name. Two databases have the same fingerprint for a zone
// if and only if it has the same offsets at every instant from 2026 to 2199.
type Rules map[string]string

// Rules returns the fingerprints of all zones. The map is shared: do not write to it.
func (d *Database) Rules() Rules { return d.rules() }

func (d *Database) fingerprints() Rules {
	out := make(Rules, len(d.zones))
	for name := range d.zones {
		if t, err := d.Load(name); err == nil { // it was read already: there is no error
			out[name] = t.fingerprint()
		}
	}
	return out
}

// fingerprint hashes the offsets from rulesFrom on.
func (t *Table) fingerprint() string {
	i := t.At(rulesFrom)
	text := binary.AppendVarint(nil, t.offsets[i])
	for i++; i < len(t.starts); i++ {
		text = binary.AppendVarint(text, t.starts[i])
		text = binary.AppendVarint(text, t.offsets[i])
	}
	const short = 8
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:short])
}
