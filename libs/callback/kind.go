package callback

import (
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/carillon-timer/carillon/libs/timer"
)

// Kind is one kind of target: which fields it may have, and who calls it. CONTRIBUTING.md lists
// what a new kind needs.
type Kind interface { //nolint:interfacebloat // all that differs by kind is in one place
	// Name is the kind's name in definitions.
	Name() timer.TargetKind
	// Doc says what a call is, and OutcomeDoc what an outcome is about, for the API's description.
	Doc() string
	OutcomeDoc() string
	// Normalize writes an equal target in one form, so that it is the same definition.
	Normalize(t *timer.Target)
	// NewCaller returns the caller of the kind, and what closes it; nil: nothing.
	NewCaller(o *CallerOptions) (c Caller, closer func(), err error)

	// endpoint names what a circuit breaker guards, without credentials; "": there is none.
	endpoint(t *timer.Target) string
	// topic names what a call publishes to; "": it publishes nothing.
	topic(t *timer.Target) string
	// ownField returns the field that only this kind has, if the target has it, or "".
	ownField(t *timer.Target) string
	// answers returns the numbers by which a receiver may answer; from 0 to 0: it answers none.
	answers() timer.StatusRange
	// check adds errors in the fields that differ by kind.
	check(c *Checks, e *faults, field string, t *timer.Target)
	// headerChars says of which characters the kind's names of headers are.
	headerChars() string
	// headerProblem returns why the kind cannot send a valid HTTP header, or "".
	headerProblem(key string, values []string) string
	secretHeaderProblem(key string) string
	secretValueProblem(value string) string
}

// kinds is the list of kinds. http comes first, because others fetch tokens by it.
var kinds = []Kind{httpKind{}, grpcKind{}, pulsarKind{}}

// Kinds returns the names of all kinds.
func Kinds() []timer.TargetKind {
	names := make([]timer.TargetKind, len(kinds))
	for i, k := range kinds {
		names[i] = k.Name()
	}
	return names
}

// Normalize writes a target in the form of its kind. It leaves an unknown kind as it is.
func Normalize(t *timer.Target) {
	if k := kindOf(t.Kind); k != nil {
		k.Normalize(t)
	}
}

// Endpoint names what a circuit breaker guards: the target's host and port, or "" if it has none.
func Endpoint(t *timer.Target) string {
	if k := kindOf(t.Kind); k != nil {
		return k.endpoint(t)
	}
	return ""
}

// Topic names what a call of the target publishes to, or "" if it publishes nothing.
func Topic(t *timer.Target) string {
	if k := kindOf(t.Kind); k != nil {
		return k.topic(t)
	}
	return ""
}

// Known reports whether this release can call the kind. A newer release may have stored another.
func Known(kind timer.TargetKind) bool {
	return kind == timer.KindCanary || kindOf(kind) != nil
}

// Describe returns what a call of each kind is, and what its outcomes are about.
func Describe() (docs, outcomes map[timer.TargetKind]string) {
	docs = make(map[timer.TargetKind]string, len(kinds))
	outcomes = make(map[timer.TargetKind]string, len(kinds))
	for _, k := range kinds {
		docs[k.Name()], outcomes[k.Name()] = k.Doc(), k.OutcomeDoc()
	}
	return docs, outcomes
}

func kindOf(name timer.TargetKind) Kind {
	for _, k := range kinds {
		if k.Name() == name {
			return k
		}
	}
	return nil
}

type httpKind struct {
	anyHeader
	urlHost
	noOwnField
}

func (httpKind) Name() timer.TargetKind { return timer.KindHTTP }

func (httpKind) Doc() string        { return "an HTTP request to url" }
func (httpKind) OutcomeDoc() string { return "it is called by HTTP" }

func (httpKind) answers() timer.StatusRange { return timer.HTTPStatuses }

func (httpKind) Normalize(t *timer.Target) {
	if t.Method == "" {
		t.Method = http.MethodPost
	}
}

type grpcKind struct {
	noMethod
	urlHost
	noOwnField
}

func (grpcKind) Name() timer.TargetKind { return timer.KindGRPC }

func (grpcKind) Doc() string {
	return "a call of carillon.v1.Callback at the host and port of url"
}
func (grpcKind) OutcomeDoc() string { return "it is called by gRPC" }

func (grpcKind) answers() timer.StatusRange { return timer.GRPCCodes }

func (grpcKind) headerProblem(key string, values []string) string {
	return metadataProblem(key, values)
}

func (grpcKind) headerChars() string { return metadataChars }

func (grpcKind) secretHeaderProblem(key string) string { return metadataProblem(key, nil) }

func (grpcKind) secretValueProblem(value string) string {
	if !printable(value) {
		return notPrintable
	}
	return ""
}

type pulsarKind struct {
	noMethod
	anyHeader
	urlHost
}

func (pulsarKind) Name() timer.TargetKind { return timer.KindPulsar }

func (pulsarKind) Doc() string        { return "a message published to a topic" }
func (pulsarKind) OutcomeDoc() string { return "a message is published" }

func (pulsarKind) answers() timer.StatusRange { return timer.StatusRange{} }

func (pulsarKind) ownField(t *timer.Target) string {
	if t.Pulsar == nil {
		return ""
	}
	return "pulsar"
}

func (pulsarKind) topic(t *timer.Target) string {
	if t.Pulsar == nil {
		return ""
	}
	return t.Pulsar.Topic
}

func (pulsarKind) headerProblem(_ string, values []string) string {
	if len(values) > 1 {
		return fmt.Sprintf(
			"expected one value, as of any property of a message, found %d",
			len(values),
		)
	}
	return ""
}

// noMethod is of kinds without methods: POST, the method by default, counts as none.
type noMethod struct{}

// Normalize removes the default method.
func (noMethod) Normalize(t *timer.Target) {
	if t.Method == http.MethodPost {
		t.Method = ""
	}
}

// anyHeader is of kinds that can send every valid header.
type anyHeader struct{}

func (anyHeader) headerChars() string                   { return "letters, digits and " + nameMarks }
func (anyHeader) headerProblem(string, []string) string { return "" }
func (anyHeader) secretHeaderProblem(string) string     { return "" }
func (anyHeader) secretValueProblem(string) string      { return "" }

// urlHost is of kinds whose endpoint is the host of their URL.
type urlHost struct{}

// endpoint returns host:port in lower case, and the scheme's port if the URL has none: plain and
// encrypted listeners of a host are two endpoints, and each has one name.
func (urlHost) endpoint(t *timer.Target) string {
	scheme, rest, _ := strings.Cut(strings.ToLower(t.URL), "://")
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		rest = rest[:i]
	}
	rest = rest[strings.LastIndexByte(rest, '@')+1:] // credentials must not be part of a name
	if rest == "" {
		return ""
	}
	u := url.URL{Scheme: scheme, Host: rest}
	return net.JoinHostPort(u.Hostname(), port(&u))
}

// noOwnField is of kinds that only have fields which others have too, and so no topic.
type noOwnField struct{}

func (noOwnField) ownField(*timer.Target) string { return "" }
func (noOwnField) topic(*timer.Target) string    { return "" }
