package egress

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// Topics says where pulsar targets may publish. nil and the zero value are nowhere: what is
// published carries either the deployment's own credentials, which open more than any app owns, or
// goes to a server that the Pulsar client cannot face unless it is trusted. The client dials
// whatever brokers a server names, by itself, and a server that means harm ends the process.
type Topics struct {
	urls     []string
	prefixes []string // of full names, each with tenant, namespace and the slash behind them
}

const (
	persistent   = "persistent://"
	systemTenant = "pulsar" // Pulsar's own topics: nobody's to publish to, whatever is listed
)

// NewTopics takes service URLs of trusted servers, and prefixes of topics of the deployment's own
// Pulsar: "tenant/namespace", or "persistent://tenant/namespace/start-of-name".
func NewTopics(urls, prefixes []string) (*Topics, error) {
	t := &Topics{}
	for _, s := range urls {
		u, err := url.Parse(s)
		if err != nil || u.Scheme != "pulsar" && u.Scheme != "pulsar+ssl" || u.Hostname() == "" ||
			u.Port() == "" {
			return nil, fmt.Errorf("%q is not pulsar://host:port or pulsar+ssl://host:port", s)
		}
		t.urls = append(t.urls, s)
	}
	for _, s := range prefixes {
		p, err := topicPrefix(s)
		if err != nil {
			return nil, err
		}
		t.prefixes = append(t.prefixes, p)
	}
	return t, nil
}

// topicPrefix insists on a whole namespace: "team/hook" without it would open team/hooks-of-others
// as well.
func topicPrefix(s string) (string, error) {
	parts := strings.Split(strings.TrimPrefix(s, persistent), "/")
	if len(parts) < 2 || len(parts) > 3 || parts[0] == "" || parts[1] == "" ||
		strings.Contains(parts[0], ":") {
		return "", fmt.Errorf(
			"%q is neither tenant/namespace nor persistent://tenant/namespace/start-of-name",
			s,
		)
	}
	if parts[0] == systemTenant {
		return "", errors.New("nothing may be published in Pulsar's own tenant, " + systemTenant)
	}
	if len(parts) == 2 {
		parts = append(parts, "")
	}
	return persistent + strings.Join(parts, "/"), nil
}

// CheckURL tells whether targets may name a Pulsar of their own. Its error is a *RefusedError that
// names the remedy.
func (t *Topics) CheckURL(serviceURL string) error {
	if t != nil && slices.Contains(t.urls, serviceURL) {
		return nil
	}
	return &RefusedError{
		Reason: serviceURL + " is not listed in callback-pulsar-urls: Pulsar servers must be trusted by whoever runs Carillon; leave url out for the deployment's own",
	}
}

// CheckTopic tells whether targets may publish to a topic of the deployment's own Pulsar, by its
// full name. Its error is a *RefusedError that names the remedy.
func (t *Topics) CheckTopic(topic string) error {
	if err := t.CheckSystem(topic); err != nil {
		return err
	}
	if t != nil &&
		slices.ContainsFunc(
			t.prefixes,
			func(p string) bool { return strings.HasPrefix(topic, p) },
		) {
		return nil
	}
	return &RefusedError{Reason: topic + " lies nowhere that is listed in callback-topics"}
}

// CheckSystem refuses the topics of Pulsar itself, on any Pulsar.
func (*Topics) CheckSystem(topic string) error {
	if strings.HasPrefix(topic, persistent+systemTenant+"/") {
		return &RefusedError{Reason: topic + " lies in Pulsar's own tenant"}
	}
	return nil
}

// Check tells whether targets may publish to a topic by a service URL; empty is the deployment's
// own Pulsar. Its error is a *RefusedError.
func (t *Topics) Check(serviceURL, topic string) error {
	if serviceURL == "" {
		return t.CheckTopic(topic)
	}
	if err := t.CheckURL(serviceURL); err != nil {
		return err
	}
	return t.CheckSystem(topic)
}
