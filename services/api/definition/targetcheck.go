package definition

import (
	"context"
	"fmt"
	"maps"
	"net/http"
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
	app string,
	d *timer.Definition,
	r *input.BodyReader,
) error {
	if !d.Several() && d.Target.Kind == "" && d.Target.URL == "" && !r.HasErrors("target") {
		r.Invalid("target", "expected target or targets, found neither: give one of the two")
		return nil
	}
	all := d.Targets
	if !d.Several() {
		all = []timer.Target{d.Target}
	}
	for i := range all {
		t := &all[i]
		switch {
		case t.Kind == timer.KindHTTP && t.Method == "":
			t.Method = http.MethodPost
		case t.Kind != timer.KindHTTP && t.Method == http.MethodPost:
			t.Method = ""
		}
	}
	if !d.Several() {
		d.Target = all[0]
	}
	bad := s.targetErrors(s.checks(s.Egress, d.Labels), d)
	if len(bad) > 0 {
		// The app's own rules may allow more than the deployment's policy. They are read only if
		// that policy refuses a target.
		policy, err := s.policyOf(ctx, app)
		if err != nil {
			return err
		}
		if policy != s.Egress {
			bad = s.targetErrors(s.checks(policy, d.Labels), d)
		}
	}
	r.Add(bad...)
	return nil
}

func (s *Reader) checks(policy *egress.Policy, labels map[string]string) *callback.Checks {
	return &callback.Checks{
		Kinds:          s.Kinds,
		AllowInsecure:  s.AllowInsecure,
		Labels:         labels,
		OwnNamespace:   s.OwnNamespace,
		Egress:         policy,
		Topics:         s.Topics,
		ReservedHeader: s.ReservedHeader,
	}
}

// policyOf returns the egress policy of an app. Like executors, it ignores rules that this version
// does not know.
func (s *Reader) policyOf(ctx context.Context, app string) (*egress.Policy, error) {
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

// targetErrors returns every error in the targets of a definition.
func (s *Reader) targetErrors(c *callback.Checks, d *timer.Definition) []*timer.Error {
	rest := *c
	rest.Topics = nil // already checked for each target; a repaired topic is not listed
	if !d.Several() {
		bad, good := s.errorsOfTarget(c, "target", d.Target)
		return append(bad, input.Collect(rest.Definition(&good, &d.Fanout))...)
	}
	var bad []*timer.Error
	f := timer.Fanout{Mode: d.Mode, Targets: slices.Clone(d.Targets)}
	for i := range f.Targets {
		var more []*timer.Error
		more, f.Targets[i] = s.errorsOfTarget(c, fmt.Sprintf("targets[%d]", i), f.Targets[i])
		bad = append(bad, more...)
	}
	return append(bad, input.Collect(rest.Definition(&d.Target, &f))...)
}

// maxTargetErrors limits the reported fields of one target.
const maxTargetErrors = 32

// errorsOfTarget finds every error in a target. A check stops at the first error, so that one is
// repaired in a copy, and the copy is checked again. It also returns the repaired copy.
func (s *Reader) errorsOfTarget(
	c *callback.Checks,
	field string,
	t timer.Target,
) ([]*timer.Error, timer.Target) {
	var bad []*timer.Error
	repaired := *c
	if t.Kind == timer.KindPulsar && t.URL == "" && s.OwnNamespace == "" {
		repaired.Topics = nil
		bad = append(
			bad,
			timer.Invalid(
				field+".url",
				"expected pulsar://host:port or pulsar+ssl://host:port, as this deployment has no Pulsar of its own, found nothing",
			),
		)
	}
	for range maxTargetErrors {
		found := input.Collect(repaired.Target(field, &t))
		if len(found) == 0 {
			break
		}
		bad = append(bad, found...)
		wrong := strings.TrimPrefix(found[0].Field, field+".")
		if !repair(&t, wrong) {
			break
		}
		if wrong == "url" || strings.HasPrefix(wrong, "pulsar") {
			repaired.Topics = nil // the repaired destination is not the requested one
		}
	}
	return bad, t
}

// repair replaces an invalid field with a valid value.
func repair(t *timer.Target, field string) bool {
	part, name, _ := strings.Cut(field, ".")
	switch part {
	case "name":
		t.Name = ""
	case "url":
		return repairURL(t)
	case "method":
		t.Method = ""
	case "headers":
		t.Headers = without(t.Headers, name)
	case "secret_headers":
		t.SecretHeaders = without(t.SecretHeaders, name)
	case "query":
		t.Query = without(t.Query, name)
	case "body":
		t.Body = ""
	case "body_base64":
		t.Bytes = nil
	case "async":
		t.Async = 0
	case "success":
		t.Success = nil
	case "redirects":
		t.Redirects = 0
	case "http2":
		t.HTTP2 = ""
	case "tls":
		t.TLS = nil
	case "oauth2":
		t.OAuth2 = nil
	case "pulsar":
		t.Pulsar = nil
		if t.Kind == timer.KindPulsar {
			t.Pulsar = &timer.PulsarTopic{Topic: "persistent://some/other/topic"}
		}
	default:
		return false
	}
	return true
}

// repairURL keeps a secure URL secure, because other fields of the target may require it.
func repairURL(t *timer.Target) bool {
	url := "https://example.com/"
	switch t.Kind {
	case timer.KindGRPC:
		url = "grpcs://example.com:443"
	case timer.KindPulsar:
		url = ""
	default:
		if t.TLS == nil && !strings.HasPrefix(t.URL, "https:") {
			url = "http://example.com/"
		}
	}
	same := t.URL == url
	t.URL = url
	return !same
}

// without returns a copy of a map without a name, in any letter case. Without a name it returns
// nil.
func without[V any](m map[string]V, name string) map[string]V {
	if name == "" {
		return nil
	}
	m = maps.Clone(m)
	maps.DeleteFunc(m, func(had string, _ V) bool { return strings.EqualFold(had, name) })
	return m
}

// checkLabels checks the labels of a timer.
func checkLabels(labels map[string]string) []*timer.Error {
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
