package timer

import (
	"maps"
	"slices"
)

// MapSealed returns a copy of the definition in which to has replaced every encrypted text of every
// target. It modifies nothing that d shares.
func (d Definition) MapSealed(to func(Sealed) Sealed) Definition {
	d.Target = d.Target.mapSealed(to)
	d.Targets = slices.Clone(d.Targets)
	for i := range d.Targets {
		d.Targets[i] = d.Targets[i].mapSealed(to)
	}
	return d
}

func (t Target) mapSealed(to func(Sealed) Sealed) Target {
	t.SecretHeaders = maps.Clone(t.SecretHeaders)
	for name, s := range t.SecretHeaders {
		t.SecretHeaders[name] = to(s)
	}
	if t.TLS != nil {
		c := *t.TLS
		c.Key = to(c.Key)
		t.TLS = &c
	}
	if t.OAuth2 != nil {
		c := *t.OAuth2
		c.Secret = to(c.Secret)
		c.SecretParams = maps.Clone(c.SecretParams)
		for name, s := range c.SecretParams {
			c.SecretParams[name] = to(s)
		}
		t.OAuth2 = &c
	}
	return t
}
