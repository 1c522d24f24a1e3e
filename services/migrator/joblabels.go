package migrator

import (
	"fmt"
	"maps"
	"slices"

	"github.com/carillon-timer/carillon/libs/callback"
	"github.com/carillon-timer/carillon/libs/egress"
	"github.com/carillon-timer/carillon/libs/timer"
)

// checkLabels refuses labels that a definition cannot have: too many, or such that a template of a
// target becomes invalid. Whether an address may be called is checked at the call: a migrator does
// not know the deployment's rules. It therefore reports a field only if the labels before had no
// fault in it.
func checkLabels(d *timer.Definition, labels map[string]string) error {
	if len(labels) > timer.MaxLabels {
		return timer.Invalid("labels", fmt.Sprintf(
			"expected at most %d labels, found %d: remove some first", timer.MaxLabels, len(labels),
		))
	}
	if maps.Equal(d.Labels, labels) {
		return nil
	}
	before := targetFaults(d, d.Labels)
	for _, e := range targetFaults(d, labels) {
		if !slices.ContainsFunc(before, func(b *timer.Error) bool { return b.Field == e.Field }) {
			return e
		}
	}
	return nil
}

func targetFaults(d *timer.Definition, labels map[string]string) []*timer.Error {
	c := &callback.Checks{
		Kinds:         callback.Kinds(),
		AllowInsecure: true,
		Labels:        labels,
		Egress:        egress.NewPolicy(egress.Options{}),
		Topics:        &egress.Topics{},
	}
	target, fanout := d.Target, d.Fanout
	return c.Definition(&target, &fanout)
}
