package callback

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/carillon-timer/carillon/libs/payload"
	"github.com/carillon-timer/carillon/libs/timer"
)

func (grpcKind) check(c *Checks, e *faults, field string, t *timer.Target) {
	for name, set := range map[string]bool{
		"method": t.Method != "" && t.Method != http.MethodPost, "query": len(t.Query) > 0, "success": t.Success != nil, "redirects": t.Redirects != 0,
		"http2": t.HTTP2 != "",
	} {
		if set {
			e.invalid(
				field+"."+name,
				"expected nothing for a target of kind grpc, found a value: leave it out",
			)
		}
	}
	address, secure, err := parseAddress(t.URL, "grpc", "grpcs")
	if err != nil {
		e.invalid(field+".url", err.Error())
		secure = true // an invalid URL says nothing about TLS
	} else {
		c.address(e, field+".url", address)
	}
	c.tls(e, field+".tls", t.TLS, secure)
	c.oauth2(e, field, t, secure)
}

func (c *Checks) address(e *faults, field, address string) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		e.invalid(field, "expected host:port, found another text: "+err.Error())
		return
	}
	c.reachable(e, field, host, port, "")
}

// metadataChars are the characters of names of metadata.
const metadataChars = `letters, digits, "-", "_" and "."`

// metadataProblem returns why gRPC does not accept a header, or "". proto/README.md lists the names.
func metadataProblem(key string, values []string) string {
	if strings.HasPrefix(key, "Grpc-") || strings.HasSuffix(key, "-Bin") || key == "Host" ||
		key == "Content-Type" ||
		key == "User-Agent" {
		return fmt.Sprintf(
			"expected another name than grpc-…, …-bin, content-type, user-agent and host, which are gRPC's own or of binary metadata, found %q: leave it out",
			strings.ToLower(key),
		)
	}
	for i := range len(key) {
		if c := key[i]; c != '-' && c != '_' && c != '.' && (c < '0' || c > '9') &&
			(c < 'A' || c > 'Z') &&
			(c < 'a' || c > 'z') {
			return "expected a header name of " + metadataChars + ", as of any metadata, found others"
		}
	}
	for _, v := range values {
		if !printable(v) {
			return notPrintable
		}
	}
	return ""
}

const notPrintable = "expected a value of printable ASCII, as of any metadata, found others"

func printable(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// parseAddress parses "plain://host:port" or "secured://host:port" without further parts. Its error
// says which part is wrong, but not what a password is.
func parseAddress(s, plain, secured string) (address string, secure bool, err error) {
	u, found := splitAddress(s, plain, secured)
	if found != "" {
		return "", false, fmt.Errorf(
			"expected %s://host:port or %s://host:port, found %s",
			plain,
			secured,
			found,
		)
	}
	return u.Host, u.Scheme == secured, nil
}

// splitAddress returns what is wrong with an address, or "".
func splitAddress(s, plain, secured string) (u *url.URL, found string) {
	scheme, _, hasScheme := strings.Cut(s, "://")
	switch {
	case s == "":
		return nil, "nothing"
	case len(s) > timer.MaxURLLen:
		return nil, fmt.Sprintf("%d bytes, more than %d", len(s), timer.MaxURLLen)
	case !hasScheme:
		return nil, "a text without a scheme"
	case !strings.EqualFold(scheme, plain) && !strings.EqualFold(scheme, secured):
		return nil, fmt.Sprintf("the scheme %q", clip(scheme))
	}
	u, err := url.Parse(s)
	if err != nil {
		if e, ok := errors.AsType[*url.Error](err); ok { // whose text repeats a password
			err = e.Err
		}
		return nil, "a text that is no URL: " + err.Error()
	}
	switch {
	case u.User != nil:
		return nil, "a user"
	case u.Path != "" && u.Path != "/":
		return nil, fmt.Sprintf("the path %q", clip(u.Path))
	case u.RawQuery != "":
		return nil, "a query"
	case u.Fragment != "":
		return nil, "a fragment"
	case u.Hostname() == "":
		return nil, "no host"
	case !validHost(u.Hostname()):
		return nil, "a host with other characters than a name has"
	case u.Port() == "":
		return nil, "no port"
	}
	if n, err := strconv.ParseUint(u.Port(), 10, 16); err != nil || n == 0 {
		return nil, fmt.Sprintf("the port %s, which is not from 1 to 65535", clip(u.Port()))
	}
	if _, err := parseURL("http://" + u.Host); err != nil {
		return nil, "one that " + err.Error()
	}
	return u, ""
}

func (pulsarKind) check(c *Checks, e *faults, field string, t *timer.Target) {
	for name, set := range map[string]bool{
		"method": t.Method != "" && t.Method != http.MethodPost, "query": len(t.Query) > 0, "success": t.Success != nil, "redirects": t.Redirects != 0,
		"http2": t.HTTP2 != "", "tls": t.TLS != nil, "oauth2": t.OAuth2 != nil, "async": t.Async != 0,
	} {
		if set {
			e.invalid(
				field+"."+name,
				"expected nothing for a target of kind pulsar, found a value: leave it out",
			)
		}
	}
	if t.URL != "" {
		address, _, err := parseAddress(t.URL, "pulsar", "pulsar+ssl")
		if err != nil {
			e.invalid(
				field+".url",
				err.Error()+": leave it out for the deployment's own Pulsar",
			)
		} else {
			c.address(e, field+".url", address)
		}
	} else if c.OwnPulsarMissing {
		e.invalid(
			field+".url",
			"expected pulsar://host:port or pulsar+ssl://host:port, as this deployment has no Pulsar of its own, found nothing",
		)
	}
	if t.Pulsar == nil {
		e.invalid(
			field+".pulsar.topic",
			"expected persistent://tenant/namespace/topic, found nothing",
		)
		return
	}
	namespace, ok := namespaceOf(t.Pulsar.Topic)
	switch {
	case !ok:
		e.invalid(
			field+".pulsar.topic",
			fmt.Sprintf(
				"expected persistent://tenant/namespace/topic, found %q",
				clip(t.Pulsar.Topic),
			),
		)
	case systemTopic(t.Pulsar.Topic):
		e.invalid(
			field+".pulsar.topic",
			fmt.Sprintf(
				"expected a topic whose name does not begin with __, which are those of Pulsar itself, found %q",
				clip(t.Pulsar.Topic),
			),
		)
	// also with a URL, which may be another name of the same Pulsar
	case namespace == c.OwnNamespace:
		e.invalid(
			field+".pulsar.topic",
			fmt.Sprintf(
				"expected another namespace than Carillon's own, found %q",
				clip(t.Pulsar.Topic),
			),
		)
	case len(t.Pulsar.Key) > timer.MaxNameLen || !validValue(t.Pulsar.Key):
		e.invalid(
			field+".pulsar.key",
			fmt.Sprintf(
				"expected at most %d bytes without control characters, found %s",
				timer.MaxNameLen,
				describeText(t.Pulsar.Key),
			),
		)
	}
	if t.Templates {
		e.add(payload.Check(
			field+".pulsar.key",
			t.Pulsar.Key,
			payload.Header,
			c.Labels,
		))
		c.checkSize(e, field+".pulsar.key",
			c.maxLen(t, t.Pulsar.Key, payload.Header),
			timer.MaxNameLen)
	}
	// What another destination would allow says nothing about this one.
	if !e.has(field+".url") && !e.has(field+".pulsar.topic") && !e.has(field+".pulsar.key") {
		c.topics(e, field, t)
	}
}

// topics checks that the deployment allows publishing to the topic.
func (c *Checks) topics(e *faults, field string, t *timer.Target) {
	if c.Topics == nil {
		return
	}
	if t.URL != "" {
		if err := c.Topics.CheckURL(t.URL); err != nil {
			e.invalid(
				field+".url",
				"expected a Pulsar that this deployment lets timers publish to, found another: "+err.Error(),
			)
			return
		}
	}
	if err := c.Topics.Check(t.URL, t.Pulsar.Topic); err != nil {
		e.invalid(
			field+".pulsar.topic",
			fmt.Sprintf(
				"expected a topic that this deployment lets timers publish to, found %q: %s",
				clip(t.Pulsar.Topic),
				err,
			),
		)
	}
}

// systemTopic reports whether Pulsar itself uses a topic: an external message in the topic of policies
// makes all topics of its namespace fail.
func systemTopic(topic string) bool {
	return strings.HasPrefix(topic[strings.LastIndexByte(topic, '/')+1:], "__")
}

// namespaceOf returns "tenant/namespace" of a topic's full name.
func namespaceOf(topic string) (string, bool) {
	rest, ok := strings.CutPrefix(topic, "persistent://")
	parts := strings.Split(rest, "/")
	if !ok || len(parts) != 3 || len(topic) > 512 {
		return "", false
	}
	for _, p := range parts {
		if !validName(p) || strings.ContainsAny(p, "#%'`|") {
			return "", false
		}
	}
	return parts[0] + "/" + parts[1], true
}
