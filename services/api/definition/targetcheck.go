package definition

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/carillon-timer/carillon/libs/callback"
	"github.com/carillon-timer/carillon/libs/egress"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/api/input"
)

// checkTargets checks the target or targets of a definition and fills in defaults. It adds every
// error to r.
func (s *Reader) checkTargets(
	ctx context.Context,
	app, name string,
	d *timer.Definition,
	r *input.BodyReader,
) error {
	if !d.Several() && d.Target.Kind == "" && d.Target.URL == "" && !r.HasErrors("target") {
		r.Invalid("target", "expected target or targets, found neither: give one of the two")
		return nil
	}
	callback.Normalize(&d.Target)
	d.Targets = slices.Clone(d.Targets)
	for i := range d.Targets {
		callback.Normalize(&d.Targets[i])
	}
	c := &callback.Checks{
		Kinds:         s.Kinds,
		AllowInsecure: s.AllowInsecure,
		App:           app,
		Name:          name,
		Labels:        d.Labels,
		OwnNamespace:  s.OwnNamespace,

		OwnPulsarMissing: s.OwnNamespace == "",
		Egress:           s.Egress,
		Topics:           s.Topics,
		ReservedHeader:   s.ReservedHeader,
	}
	bad := c.Definition(&d.Target, &d.Fanout)
	if len(bad) > 0 {
		// The app's own rules may allow more than the deployment's policy. They are read only if
		// that policy refuses a target.
		policy, err := s.PolicyOf(ctx, app)
		if err != nil {
			return err
		}
		if policy != s.Egress {
			c.Egress = policy
			bad = c.Definition(&d.Target, &d.Fanout)
		}
	}
	r.Add(bad...)
	return nil
}

// PolicyOf returns the egress policy of an app. Like executors, it ignores rules that this version
// does not know.
func (s *Reader) PolicyOf(ctx context.Context, app string) (*egress.Policy, error) {
	a, err := s.Store.App(ctx, app)
	if timer.CodeOf(err) == timer.CodeNotFound {
		return s.Egress, nil
	}
	if err != nil {
		return nil, err
	}
	var rules []egress.Rule
	for _, text := range a.Settings.Allow {
		if rule, err := egress.ParseRule(text); err == nil {
			rules = append(rules, rule)
		}
	}
	return s.Egress.With(rules...), nil
}

// CheckLabels checks the labels of a timer.
func CheckLabels(labels map[string]string) []*timer.Error {
	var bad []*timer.Error
	if len(labels) > timer.MaxLabels {
		bad = append(
			bad,
			timer.Invalid(
				"labels",
				fmt.Sprintf("expected at most %d labels, found %d", timer.MaxLabels, len(labels)),
			),
		)
	}
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		field := "labels." + name
		if strings.ContainsAny(name, "{}") {
			bad = append(
				bad,
				timer.Invalid(
					field,
					"expected a name without braces, which templates need, found one",
				),
			)
		}
		bad = append(bad, input.Collect(input.CheckText(field, name, timer.MaxLabelLen))...)
		if value := labels[name]; value != "" {
			bad = append(bad, input.Collect(input.CheckText(field, value, timer.MaxLabelLen))...)
		}
	}
	return bad
}
