package egress

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// Topics decides where pulsar targets may publish. nil and the zero value allow nothing. Messages
// use the deployment's own credentials, which grant more than any app has, or go to another server.
// The Pulsar client itself dials the brokers that a server names, and a malicious server can crash
// the process. So such servers must be trusted.
type Topics struct {
	urls     []string
	prefixes []string // of full names, each with tenant, namespace and a slash
}

const (
	persistent   = "persistent://"
	systemTenant = "pulsar" // tenant of Pulsar's own topics; nobody may publish there
)

// NewTopics takes the service URLs of trusted servers, and prefixes of topics of the deployment's
// own Pulsar. A prefix is "tenant/namespace", or "persistent://tenant/namespace/start-of-name".
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

// topicPrefix requires a whole namespace, because the prefix "team/hook" would also open
// team/hooks-of-others.
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

// CheckURL returns whether targets may use another Pulsar. The error is a *RefusedError that names
// the remedy.
func (t *Topics) CheckURL(serviceURL string) error {
	if t != nil && slices.Contains(t.urls, serviceURL) {
		return nil
	}
	return &RefusedError{
		Reason: serviceURL + " is not listed in callback-pulsar-urls: Pulsar servers must be trusted by the operator of Carillon; leave url out for the deployment's own",
	}
}

// CheckTopic returns whether targets may publish to a topic of the deployment's own Pulsar, by its
// full name. The error is a *RefusedError that names the remedy.
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
	return &RefusedError{Reason: topic + " is not listed in callback-topics"}
}

// CheckSystem refuses the topics of Pulsar itself, on any server.
func (*Topics) CheckSystem(topic string) error {
	if strings.HasPrefix(topic, persistent+systemTenant+"/") {
		return &RefusedError{Reason: topic + " is in Pulsar's own tenant"}
	}
	return nil
}

// Check returns whether targets may publish to a topic by a service URL; empty is the deployment's
// own Pulsar. The error is a *RefusedError.
func (t *Topics) Check(serviceURL, topic string) error {
	if serviceURL == "" {
		return t.CheckTopic(topic)
	}
	if err := t.CheckURL(serviceURL); err != nil {
		return err
	}
	return t.CheckSystem(topic)
}
