package zone

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"time"
)

// rulesFrom is the instant from which changes of a zone count as its rules. Earlier changes cannot
// affect future fires. It must never change: that would change every fingerprint and replan every
// timer once.
var rulesFrom = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Unix()

// Rules maps zone names to fingerprints. Two databases have the same fingerprint for a zone if and
// only if it has the same offsets at every instant from 2026 to 2199.
type Rules map[string]string

// Rules returns the fingerprints of all zones. The map is shared: callers must not modify it.
func (d *Database) Rules() Rules { return d.rules() }

func (d *Database) fingerprints() Rules {
	out := make(Rules, len(d.zones))
	for name := range d.zones {
		if t, err := d.Load(name); err == nil { // cannot fail: the zone was read before
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
