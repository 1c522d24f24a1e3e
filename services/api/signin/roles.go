package signin

import (
	"fmt"
	"strings"

	"github.com/carillon-timer/carillon/libs/apikey"
	"github.com/carillon-timer/carillon/services/api/auth"
)

// roles are the names of scopes that people have.
var roles = map[string]apikey.Scope{
	"viewer":   apikey.Read,
	"operator": apikey.Operate,
	"editor":   apikey.Write,
	"admin":    apikey.Admin,
}

const everyApp = "*"

// Rule gives the members of a group a scope in an app.
type Rule struct {
	Group, App string // App is * for every app
	Scope      apikey.Scope
}

// ParseRule parses group=role@app. The group may contain any of these marks.
func ParseRule(text string) (Rule, error) {
	at := strings.LastIndexByte(text, '@')
	equals := strings.LastIndexByte(text[:max(at, 0)], '=')
	if equals < 1 || at == len(text)-1 {
		return Rule{}, fmt.Errorf("expected group=role@app or group=role@*, found %q", text)
	}
	scope, known := roles[text[equals+1:at]]
	if !known {
		return Rule{}, fmt.Errorf(
			"expected the role viewer, operator, editor or admin, found %q", text[equals+1:at],
		)
	}
	return Rule{Group: text[:equals], App: text[at+1:], Scope: scope}, nil
}

// Identity is a person as the provider named it, with those groups that rules name.
type Identity struct {
	Subject string   `json:"sub"`
	Name    string   `json:"name,omitempty"`
	Groups  []string `json:"groups,omitempty"`
}

// Person returns what an identity may do by the rules of now. So a rule that is gone gives nothing,
// also to those who signed in before.
func (p *Provider) Person(i *Identity) *auth.Person {
	person := &auth.Person{Subject: i.Subject, Name: i.Name, Apps: make(map[string]apikey.Scope)}
	for _, g := range i.Groups {
		for _, r := range p.opts.Rules {
			switch {
			case r.Group != g:
			case r.App == everyApp:
				if !person.All.Includes(r.Scope) {
					person.All = r.Scope
				}
			case !person.Apps[r.App].Includes(r.Scope):
				person.Apps[r.App] = r.Scope
			}
		}
	}
	return person
}
