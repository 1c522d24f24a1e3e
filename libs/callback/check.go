package callback

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/carillon-timer/carillon/libs/egress"
	"github.com/carillon-timer/carillon/libs/payload"
	"github.com/carillon-timer/carillon/libs/timer"
)

// Checks are the rules for targets, besides those of the protocols.
type Checks struct {
	Kinds         []timer.TargetKind // with a caller; nil: http only
	AllowInsecure bool               // whether TLS.Insecure is allowed
	App, Name     string             // of the timer, for templates; empty: not known
	Labels        map[string]string  // of the timer, which templates may name
	// OwnNamespace is "tenant/namespace" of Carillon itself, where no pulsar target may publish.
	OwnNamespace string
	// Egress is the app's policy for URLs with an address instead of a name; nil: they are checked
	// only when called.
	Egress *egress.Policy
	// ReservedHeader is the trusted header of the gateway, which no target may send; empty: none.
	ReservedHeader string
	// OwnPulsarMissing tells that there is no Pulsar for targets without a URL of their own.
	OwnPulsarMissing bool
	// Topics are where pulsar targets may publish; nil: checked only when called.
	Topics *egress.Topics
}

// CheckTarget checks a plain http target. Its error is a *timer.Error (invalid) that names the
// field. An empty method is POST.
func CheckTarget(t *timer.Target) error { return (&Checks{}).Target("target", t) }

// Target returns the first error of one target, or nil. It is a *timer.Error (invalid) with the
// field's name, which begins with field.
func (c *Checks) Target(field string, t *timer.Target) error {
	var e faults
	c.target(&e, field, t)
	return e.first()
}

// Definition returns all errors in the target or targets of a definition, the first of each field.
// Exactly one of the two must be set.
func (c *Checks) Definition(t *timer.Target, f *timer.Fanout) []*timer.Error {
	var e faults
	if f.Several() {
		c.fanout(&e, t, f)
		return e.list
	}
	if f.Mode != "" {
		e.invalid(
			"mode",
			fmt.Sprintf(
				"expected no mode for a single target, found %q: leave it out, or give targets",
				f.Mode,
			),
		)
	}
	c.target(&e, "target", t)
	return e.list
}

// fanout checks several targets.
func (c *Checks) fanout(e *faults, t *timer.Target, f *timer.Fanout) {
	if t.Kind != "" || t.URL != "" {
		e.invalid(
			"targets",
			"expected target or targets, found both: leave one of the two out",
		)
	}
	if f.Mode != timer.ModeAny && f.Mode != timer.ModeAll {
		e.invalid(
			"mode",
			fmt.Sprintf("expected \"any\" or \"all\" with targets, found %q", f.Mode),
		)
	}
	if len(f.Targets) > timer.MaxTargets {
		e.invalid(
			"targets",
			fmt.Sprintf("expected at most %d targets, found %d", timer.MaxTargets, len(f.Targets)),
		)
	}
	names := make(map[string]bool, len(f.Targets))
	for i := range f.Targets {
		field := fmt.Sprintf("targets[%d]", i)
		one := &f.Targets[i]
		c.target(e, field, one)
		if one.Async > 0 && f.Mode == timer.ModeAll {
			e.invalid(
				field+".async",
				fmt.Sprintf(
					"expected no async with mode all, found %s: leave it out, or choose mode any",
					time.Duration(one.Async),
				),
			)
		}
		name := f.TargetName(i)
		if names[name] {
			e.invalid(
				field+".name",
				fmt.Sprintf("expected a name that no other target has, found %q", name),
			)
		}
		names[name] = true
	}
}

// target checks one target.
func (c *Checks) target(e *faults, field string, t *timer.Target) {
	allowed := c.Kinds
	if allowed == nil {
		allowed = []timer.TargetKind{timer.KindHTTP}
	}
	kind := kindOf(t.Kind)
	switch {
	case t.Kind == "":
		e.invalid(field+".kind", "expected "+list(allowed)+", found nothing")
		return
	case kind == nil || !slices.Contains(allowed, t.Kind):
		e.invalid(field+".kind", fmt.Sprintf("expected %s, found %q", list(allowed), t.Kind))
		return
	}
	if len(t.Name) > timer.MaxTargetNameLen || !validValue(t.Name) {
		e.invalid(
			field+".name",
			fmt.Sprintf(
				"expected at most %d bytes without control characters, found %s",
				timer.MaxTargetNameLen,
				describeText(t.Name),
			),
		)
	}
	for _, other := range kinds {
		if own := other.ownField(t); own != "" && other != kind {
			e.invalid(
				field+"."+own,
				fmt.Sprintf(
					"expected no %s for a target of kind %s, found one: leave it out, or choose kind %s",
					own,
					t.Kind,
					other.Name(),
				),
			)
		}
	}
	kind.check(c, e, field, t)
	c.headers(e, field, t, kind)
	c.body(e, field, t)
	if t.Async < 0 || t.Async > timer.MaxAsync {
		e.invalid(
			field+".async",
			fmt.Sprintf(
				"expected a duration from 0s to %s (7d), found %s",
				time.Duration(timer.MaxAsync),
				time.Duration(t.Async),
			),
		)
	}
}

func list(kinds []timer.TargetKind) string {
	out := make([]string, len(kinds))
	for i, k := range kinds {
		out[i] = fmt.Sprintf("%q", k)
	}
	return strings.Join(out, " or ")
}

func (c *Checks) body(e *faults, field string, t *timer.Target) {
	if kind := contentType(t.Headers); t.Templates && strings.Contains(kind, "{{") {
		e.invalid(
			field+".headers.Content-Type",
			fmt.Sprintf(
				"expected a fixed value, which decides how values in the body are escaped, found a variable in %q: write the type out",
				kind,
			),
		)
	}
	switch {
	case len(t.Bytes) > 0 && t.Body != "":
		e.invalid(
			field+".body_base64",
			"expected body or body_base64, found both: leave one of the two out",
		)
	case len(t.Bytes) > timer.MaxBodyLen:
		e.invalid(
			field+".body_base64",
			fmt.Sprintf("expected at most %d bytes, found %d", timer.MaxBodyLen, len(t.Bytes)),
		)
	}
	field += ".body"
	if len(t.Body) > timer.MaxBodyLen {
		e.invalid(
			field,
			fmt.Sprintf("expected at most %d bytes, found %d", timer.MaxBodyLen, len(t.Body)),
		)
	}
	if !utf8.ValidString(t.Body) {
		e.invalid(
			field,
			"expected UTF-8 text, found other bytes: give them as body_base64",
		)
	}
	if !t.Templates {
		return
	}
	place := payload.PlaceOf(contentType(t.Headers), t.Body)
	e.add(payload.Check(field, t.Body, place, c.Labels))
	c.checkSize(e, field, c.maxLen(t, t.Body, place), payload.MaxExpanded)
}

// maxLen returns the maximum length of a text after expansion.
func (c *Checks) maxLen(t *timer.Target, s string, p payload.Place) int {
	if !t.Templates {
		return len(s)
	}
	return payload.Longest(s, p, c.Labels)
}

// sampleValues expands values for a sample fire of the timer. An error in them occurs for every
// fire, or for the timer's labels or its name.
func (c *Checks) sampleValues(t *timer.Target, values []string) []string {
	if !t.Templates {
		return values
	}
	out := slices.Clone(values)
	for i, v := range out {
		if s, err := payload.Expand(v, payload.Header, c.sampleFire()); err == nil {
			out[i] = s
		}
	}
	return out
}

func (c *Checks) sampleFire() *payload.Values {
	return &payload.Values{
		Fire:    timer.FireID{Timer: 1, DueMS: 1},
		Attempt: 1,
		App:     cmp.Or(c.App, "app"),
		Name:    cmp.Or(c.Name, "name"),
		Labels:  c.Labels,
	}
}

// checkSize refuses a text that is too long after expansion. Texts too long before expansion are
// refused earlier.
func (c *Checks) checkSize(e *faults, field string, size, most int) {
	if size <= most {
		return
	}
	e.invalid(
		field,
		fmt.Sprintf(
			"expected at most %d bytes once variables are put in, found up to %d",
			most,
			size,
		),
	)
}

// connectionHeaders concern one connection, not the request; the client sets them itself.
var connectionHeaders = map[string]bool{
	"Connection":          true,
	"Content-Length":      true,
	"Keep-Alive":          true,
	"Proxy-Authenticate":  true,
	"Proxy-Authorization": true,
	"Proxy-Connection":    true,
	"Te":                  true,
	"Trailer":             true,
	"Transfer-Encoding":   true,
	"Upgrade":             true,
}

func (c *Checks) headers(e *faults, field string, t *timer.Target, kind Kind) {
	seen := make(map[string]bool, len(t.Headers))
	if n := len(t.Headers) + len(t.SecretHeaders); n > timer.MaxHeaders {
		e.invalid(
			field+".headers",
			fmt.Sprintf("expected at most %d headers in all, found %d", timer.MaxHeaders, n),
		)
	} else {
		c.plainHeaders(e, field, t, kind, seen)
	}
	for name := range t.SecretHeaders {
		key, at := http.CanonicalHeaderKey(name), field+".secret_headers."+name
		msg := c.headerProblem(kind, name, key, nil, seen[key])
		if msg == "" && key == "Host" {
			msg = "expected a header that is a secret, found Host: give it among headers"
		}
		if msg == "" {
			msg = kind.secretHeaderProblem(key)
		}
		if msg != "" {
			e.invalid(at, msg)
			continue
		}
		seen[key] = true
	}
}

// plainHeaders checks headers that are no secrets, and adds them to seen.
func (c *Checks) plainHeaders(
	e *faults,
	field string,
	t *timer.Target,
	kind Kind,
	seen map[string]bool,
) {
	size, maxLen := 0, 0
	for name, values := range t.Headers {
		at := field + ".headers." + name
		key := http.CanonicalHeaderKey(name)
		ownSize, ownMaxLen := len(name), len(name)
		for _, v := range values {
			ownSize += len(v)
			ownMaxLen += c.maxLen(t, v, payload.Header)
			if t.Templates {
				e.add(payload.Check(at, v, payload.Header, c.Labels))
			}
		}
		expanded := c.sampleValues(t, values)
		msg := c.headerProblem(kind, name, key, expanded, seen[key])
		if msg == "" && key == "Host" && t.Templates && strings.Contains(values[0], "{{") &&
			(len(t.SecretHeaders) > 0 || t.OAuth2 != nil) {
			msg = fmt.Sprintf(
				"expected a fixed value, as it decides to whom the target's secrets go, found a variable in %q: write the host out",
				values[0],
			)
		}
		if msg == "" {
			msg = kind.headerProblem(key, expanded)
		}
		if msg != "" {
			e.invalid(at, msg)
		}
		if e.has(at) {
			continue
		}
		seen[key] = true
		size, maxLen = size+ownSize, maxLen+ownMaxLen
	}
	if size > timer.MaxHeaderLen {
		e.invalid(
			field+".headers",
			fmt.Sprintf(
				"expected at most %d bytes of names and values, found %d",
				timer.MaxHeaderLen,
				size,
			),
		)
	}
	c.checkSize(e, field+".headers", maxLen, timer.MaxHeaderLen)
}

// describeText describes an invalid short text without control characters.
func describeText(s string) string {
	if !validValue(s) {
		return "others"
	}
	return fmt.Sprintf("%d bytes", len(s))
}

// CheckSecretHeader checks the value of a secret header before it is encrypted, because it cannot
// be checked afterwards.
func CheckSecretHeader(field string, kind timer.TargetKind, value string) error {
	switch {
	case kind != "" && kindOf(kind) != nil && kindOf(kind).secretValueProblem(value) != "":
		return timer.Invalid(field, kindOf(kind).secretValueProblem(value))
	case len(value) > timer.MaxSecretLen:
		return timer.Invalid(
			field,
			fmt.Sprintf("expected at most %d bytes, found %d", timer.MaxSecretLen, len(value)),
		)
	case !validValue(value):
		return timer.Invalid(field, "expected UTF-8 text without control characters, found others")
	}
	return nil
}

func (c *Checks) headerProblem(
	kind Kind,
	name, key string,
	values []string,
	twice bool,
) string {
	switch {
	case !validName(name):
		return "expected a header name of " + kind.headerChars() + ", found others"
	case twice:
		return "expected each header once, whatever its letter case, found it twice, perhaps among the secret headers: leave one out"
	case strings.HasPrefix(key, ownHeaderPrefix) || strings.HasPrefix(key, signaturePrefix) || key == HeaderIdempotencyKey || key == HeaderTraceParent:
		return "expected a header that Carillon does not set itself, found one that it sets: leave it out"
	case isReserved(name, c.ReservedHeader):
		return "expected another header, found the one by which a gateway says who calls (trust-header): leave it out"
	case connectionHeaders[key]:
		return "expected a header of the request, found one of the connection, which the client sets: leave it out"
	case key == "Host" && (len(values) != 1 || !validHost(values[0])):
		return fmt.Sprintf(
			"expected exactly one value, a host name, found %d, or another text",
			len(values),
		)
	}
	for _, v := range values {
		if !validValue(v) {
			return "expected values of UTF-8 text without control characters, found others"
		}
	}
	return ""
}

// isReserved returns whether a header is the reserved one, or one that a server may confuse with
// it: some servers read _ as -.
func isReserved(name, reserved string) bool {
	plain := func(s string) string { return strings.ReplaceAll(s, "_", "-") }
	return reserved != "" && strings.EqualFold(plain(name), plain(reserved))
}

// validName returns whether s is a token of RFC 9110.
func validName(s string) bool {
	for i := range len(s) {
		c := s[i]
		letterOrDigit := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
		if !letterOrDigit && strings.IndexByte(nameMarks, c) < 0 {
			return false
		}
	}
	return s != ""
}

// nameMarks are the characters of a name besides letters and digits.
const nameMarks = "!#$%&'*+-.^_`|~"

func validValue(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return utf8.ValidString(s)
}

// validHost returns whether s is a valid Host header. For an invalid one net/http sends an empty
// header.
func validHost(s string) bool {
	for i := range len(s) {
		c := s[i]
		letterOrDigit := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
		if !letterOrDigit && strings.IndexByte("!$%&()*+,-.:;=[']_~", c) < 0 {
			return false
		}
	}
	return s != ""
}
