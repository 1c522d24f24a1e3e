package config

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/carillon-timer/carillon/libs/bus/pulsaradmin"
	"github.com/carillon-timer/carillon/libs/egress"
	"github.com/carillon-timer/carillon/libs/encryption"
)

// Callback are the settings of what timers may call. API and executors need the same values.
type Callback struct {
	AllowPrivate  Tri // unset: decided by LoopbackByDefault
	Allow         []string
	AllowInsecure bool
	Topics        []string
	PulsarURLs    []string
	// LoopbackByDefault opens this machine, any port, while AllowPrivate is unset. It is not a
	// setting: carillon dev sets it where it requires no keys.
	LoopbackByDefault bool
	// OwnListeners are the listeners that no timer may call.
	OwnListeners *egress.OwnListeners
}

// Register registers the settings.
func (c *Callback) Register(s *Set) {
	s.Tri(&c.AllowPrivate, "callback-allow-private",
		"true: timers may call loopback and private addresses, and any port; false: neither; "+
			"auto: neither, except loopback for carillon dev on a loopback address without keys")
	s.Rules(
		&c.Allow,
		"callback-allow",
		"",
		"rules that open addresses besides public ones on ports 80 and 443, separated by commas: "+
			"10.20.0.0/16:8080, hooks.internal:443,8443, *.example.com:8000-8100",
	)
	s.Bool(
		&c.AllowInsecure,
		"callback-allow-insecure",
		false,
		"let timers skip certificate verification (tls.insecure)",
	)
	s.List(
		&c.Topics,
		"callback-topics",
		"",
		"topics of the deployment's own Pulsar that pulsar targets of any app may publish to, with its token: "+
			"tenant/namespace or persistent://tenant/namespace/start-of-name, separated by commas; empty: none",
	)
	s.List(
		&c.PulsarURLs,
		"callback-pulsar-urls",
		"",
		"service URLs of other Pulsar servers that pulsar targets may name, separated by commas. Such servers must be trusted: "+
			"they decide where executors connect; callback-allow opens their addresses",
	)
}

// Validate checks the settings.
func (c *Callback) Validate() error {
	if _, err := egress.ParseRules(c.Allow); err != nil {
		return fmt.Errorf("callback-allow: %w", err)
	}
	_, err := c.AllowedTopics()
	return err
}

// AllowedTopics returns where pulsar targets may publish.
func (c *Callback) AllowedTopics() (*egress.Topics, error) {
	if _, err := egress.NewTopics(c.PulsarURLs, nil); err != nil {
		return nil, fmt.Errorf("callback-pulsar-urls: %w", err)
	}
	t, err := egress.NewTopics(c.PulsarURLs, c.Topics)
	if err != nil {
		return nil, fmt.Errorf("callback-topics: %w", err)
	}
	return t, nil
}

// CheckOwnPulsar refuses a server in callback-pulsar-urls that pulsar-url names too. By its URL
// timers would publish to every topic of the deployment's own Pulsar, whatever callback-topics says.
// Another name of the same server is not recognized, because names may change their meaning.
func (c *Callback) CheckOwnPulsar(own DSN) error {
	if own == "" || len(c.PulsarURLs) == 0 {
		return nil
	}
	addresses, err := brokerAddresses(own.Reveal())
	if err != nil {
		return fmt.Errorf("pulsar-url: not a URL of hosts separated by commas: %s", own)
	}
	taken := make(map[string]bool, len(addresses))
	for _, a := range addresses {
		taken[a] = true
	}
	for _, s := range c.PulsarURLs {
		addresses, err := brokerAddresses(s)
		if err != nil {
			return fmt.Errorf("callback-pulsar-urls: %w", err)
		}
		if slices.ContainsFunc(addresses, func(a string) bool { return taken[a] }) {
			return fmt.Errorf(
				"callback-pulsar-urls: %s is the deployment's own Pulsar (pulsar-url), and would open all its topics: leave it out, and list topics in callback-topics",
				s,
			)
		}
	}
	return nil
}

// brokerAddresses returns the addresses that a service URL names, each as host:port in one form. A
// host without a port has that of the scheme, as for the client. The names and addresses of this
// machine are one host.
func brokerAddresses(serviceURL string) ([]string, error) {
	first, hosts, err := pulsaradmin.SplitURL(serviceURL)
	if err != nil {
		return nil, err //nolint:wrapcheck // the callers name the setting
	}
	port := "6650"
	if first.Scheme == "pulsar+ssl" {
		port = "6651"
	}
	for i, h := range hosts {
		hosts[i] = brokerAddress(h, port)
	}
	return hosts, nil
}

// brokerAddress returns one address in that form.
func brokerAddress(hostPort, defaultPort string) string {
	u := url.URL{Host: hostPort}
	host, port := u.Hostname(), cmp.Or(u.Port(), defaultPort)
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if a, err := netip.ParseAddr(host); err == nil {
		host = a.Unmap().String()
		if a.Unmap().IsLoopback() {
			host = "localhost"
		}
	}
	return net.JoinHostPort(host, port)
}

// Policy returns which addresses may be called.
func (c *Callback) Policy() (*egress.Policy, error) {
	rules, err := egress.ParseRules(c.Allow)
	if err != nil {
		return nil, fmt.Errorf("callback-allow: %w", err)
	}
	return egress.NewPolicy(egress.Options{
		Allow:         rules,
		AllowLoopback: c.AllowsLoopback(),
		AllowPrivate:  c.AllowPrivate == Yes,
		OwnListeners:  c.OwnListeners,
	}), nil
}

// AllowsLoopback returns whether timers may call this machine without a rule.
func (c *Callback) AllowsLoopback() bool {
	return c.AllowPrivate == Yes || c.AllowPrivate == Unset && c.LoopbackByDefault
}

// Encryption are the keys that encrypt secrets at rest. API and executors need the same keys.
type Encryption struct {
	Keys Secret
	File string
}

// Register registers the settings.
func (c *Encryption) Register(s *Set) {
	s.Secret(
		&c.Keys,
		"encryption-keys",
		"keys that encrypt secrets, <id>:<base64 of 32 bytes>, separated by commas: the first encrypts, all decrypt; carillon encryption-key prints one",
	)
	s.String(&c.File, "encryption-keys-file", "", "file with the encryption keys, one per line")
}

// Validate checks the settings.
func (c *Encryption) Validate() error {
	if c.Keys != "" && c.File != "" {
		return errors.New(
			"encryption-keys: given together with encryption-keys-file: give one of the two",
		)
	}
	_, err := c.Keyring()
	return err
}

// Keyring returns the keys, or nil without any. It reads the file each time.
func (c *Encryption) Keyring() (*encryption.Keyring, error) {
	switch {
	case c.File != "":
		r, err := encryption.LoadKeyring(c.File)
		if err != nil {
			return nil, fmt.Errorf("encryption-keys-file: %w", err)
		}
		return r, nil
	case c.Keys != "":
		r, err := encryption.ParseKeyring(encryption.NewSecret(c.Keys.Reveal()))
		if err != nil {
			return nil, fmt.Errorf("encryption-keys: %w", err)
		}
		return r, nil
	}
	return nil, nil //nolint:nilnil // there are none
}
