package apps

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/carillon-timer/carillon/libs/egress"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/api/auth"
	"github.com/carillon-timer/carillon/services/api/input"
	"github.com/carillon-timer/carillon/services/api/problem"
	"github.com/carillon-timer/carillon/services/api/v2/param"
)

// Limits of an app's settings.
const (
	maxRate       = 1_000_000
	maxConcurrent = 1_000_000
	maxRules      = 64
	maxRuleLen    = 300
)

type settingsInput struct {
	param.PathAppParam
	param.DryRunParam
	Body settingsBody
}

type settingsBody struct {
	Rate       float64  `json:"rate,omitempty" doc:"Calls started per second, over all executors, from 0.001 to 1000000; no limit where it is 0 or left out."`
	Burst      int      `json:"burst,omitempty" doc:"Calls that may start at once after a pause, 0 to 1000000; a second's worth by default."`
	Concurrent int      `json:"concurrent,omitempty" minimum:"0" maximum:"1000000" doc:"Calls at once, over all executors; no limit where it is 0 or left out."`
	Allow      []string `json:"allow,omitempty" nullable:"false" maxItems:"64" doc:"Rules, of at most 300 bytes each, that open addresses besides the deployment's: a CIDR, an address or a host name (*.example.com for those below), each with :ports behind it where others than 80 and 443 are meant. A rule that is neither here already nor the deployment's own needs an admin key of the deployment." example:"[\"10.20.0.0/16:8080\"]"`
	IfVersion  int64    `json:"if_version,omitempty" minimum:"1" doc:"Replace them only if this is their version; else 409."`
}

type shownSettings struct {
	App        string   `json:"app"`
	Rate       float64  `json:"rate"`
	Burst      int      `json:"burst"`
	Concurrent int      `json:"concurrent"`
	Allow      []string `json:"allow" nullable:"false"`
	Version    int64    `json:"version" doc:"It grows with every change."`
}

type settingsOutput struct{ Body shownSettings }

func (s *Resource) getSettings(
	ctx context.Context,
	in *param.PathAppParam,
) (*settingsOutput, error) {
	if err := s.Auth.AuthorizeApp(ctx, in.App); err != nil {
		return nil, err
	}
	a, err := s.Store.App(ctx, in.App)
	if err != nil {
		return nil, err
	}
	return &settingsOutput{showSettings(&a)}, nil
}

// putSettings replaces all settings. Executors read them from the change log, which they poll twice
// a second.
func (s *Resource) putSettings(ctx context.Context, in *settingsInput) (*settingsOutput, error) {
	if err := s.Auth.MayChange(ctx, "path.app", in.App); err != nil {
		return nil, err
	}
	if err := input.CheckNewApp("path.app", in.App); err != nil {
		return nil, err
	}
	b := &in.Body
	if bad := checkSettings(b); len(bad) > 0 {
		return nil, s.Problems.Invalid(bad)
	}
	version := b.IfVersion
	if !auth.AdminOfDeployment(ctx) {
		// The settings that were checked are the ones replaced, so that no rule is added in
		// between.
		had, err := s.Store.App(ctx, in.App)
		if err != nil && timer.CodeOf(err) != timer.CodeNotFound {
			return nil, err
		}
		for _, rule := range b.Allow {
			if !slices.Contains(had.Settings.Allow, rule) && !s.Egress.Has(rule) {
				return nil, problem.Of(problem.Fault{
					Status: http.StatusForbidden,
					Field:  "allow",
					Msg: fmt.Sprintf(
						"expected rules that the deployment or the app has already, found %q: use an admin key of the deployment",
						rule,
					),
				})
			}
		}
		// A future version is refused too: the rules were checked against the current one.
		if version != 0 && version != had.Version {
			return nil, errSettingsChanged()
		}
		version = had.Version
	}
	a, err := s.Store.PutSettings(
		ctx,
		in.App,
		store.AppSettings{Rate: b.Rate, Burst: b.Burst, Concurrent: b.Concurrent, Allow: b.Allow},
		version,
	)
	if store.IsVersionConflict(err) {
		return nil, errSettingsChanged()
	}
	if err != nil {
		return nil, err
	}
	return &settingsOutput{showSettings(&a)}, nil
}

func errSettingsChanged() error {
	return timer.Conflict(
		"if_version",
		"expected the version of the settings, found another, as they were changed: read them again",
	)
}

func checkSettings(b *settingsBody) []*timer.Error {
	var bad []*timer.Error
	if !(b.Rate >= 0 && b.Rate <= maxRate) {
		bad = append(
			bad,
			timer.Invalid(
				"rate",
				fmt.Sprintf("expected a number from 0 to %d, found %v", maxRate, b.Rate),
			),
		)
	}
	if b.Rate > 0 && b.Rate < 0.001 {
		bad = append(
			bad,
			timer.Invalid(
				"rate",
				fmt.Sprintf(
					"expected 0 for no limit, or at least 0.001, found %v: freeze the app to stop its calls",
					b.Rate,
				),
			),
		)
	}
	if b.Burst < 0 || b.Burst > maxRate {
		bad = append(
			bad,
			timer.Invalid(
				"burst",
				fmt.Sprintf("expected a number from 0 to %d, found %d", maxRate, b.Burst),
			),
		)
	}
	if b.Concurrent < 0 || b.Concurrent > maxConcurrent {
		bad = append(
			bad,
			timer.Invalid(
				"concurrent",
				fmt.Sprintf(
					"expected a number from 0 to %d, found %d",
					maxConcurrent,
					b.Concurrent,
				),
			),
		)
	}
	if len(b.Allow) > maxRules {
		bad = append(
			bad,
			timer.Invalid(
				"allow",
				fmt.Sprintf("expected at most %d rules, found %d", maxRules, len(b.Allow)),
			),
		)
	}
	for i, text := range b.Allow {
		field := fmt.Sprintf("allow[%d]", i)
		if len(text) > maxRuleLen {
			bad = append(
				bad,
				timer.Invalid(
					field,
					fmt.Sprintf("expected at most %d bytes, found %d", maxRuleLen, len(text)),
				),
			)
			continue
		}
		if _, err := egress.ParseRule(text); err != nil {
			bad = append(
				bad,
				timer.Invalid(
					field,
					fmt.Sprintf(
						"expected a CIDR, an address or a host name, with :ports or without, found %q: %s",
						text,
						ruleFault(err),
					),
				),
			)
		}
	}
	return bad
}

// ruleFault returns why a rule is invalid, without the rule.
func ruleFault(err error) string {
	if _, why, ok := strings.Cut(err.Error(), " is not a rule: "); ok {
		return why
	}
	return err.Error()
}

func showSettings(a *store.App) shownSettings {
	st := &a.Settings
	return shownSettings{
		App:        a.Name,
		Rate:       st.Rate,
		Burst:      st.Burst,
		Concurrent: st.Concurrent,
		Allow:      append([]string{}, st.Allow...),
		Version:    a.Version,
	}
}
