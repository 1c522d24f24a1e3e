package callback

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/carillon-timer/carillon/libs/timer"
)

// Kind is one kind of target: which fields it may have, and who calls it. A new kind is a
// [timer.TargetKind], a Kind in the list of kinds, and what the API reads and shows of it.
type Kind interface {
	// Name is the kind's name in definitions.
	Name() timer.TargetKind
	// Normalize writes an equal target in one form, so that it is the same definition.
	Normalize(t *timer.Target)
	// NewCaller returns the caller of the kind, and what closes it; nil: nothing.
	NewCaller(o *CallerOptions) (c Caller, closer func(), err error)

	// check adds errors in the fields that differ by kind.
	check(c *Checks, e *faults, field string, t *timer.Target)
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

func kindOf(name timer.TargetKind) Kind {
	for _, k := range kinds {
		if k.Name() == name {
			return k
		}
	}
	return nil
}

type httpKind struct{ anyHeader }

func (httpKind) Name() timer.TargetKind { return timer.KindHTTP }

func (httpKind) Normalize(t *timer.Target) {
	if t.Method == "" {
		t.Method = http.MethodPost
	}
}

type grpcKind struct{ noMethod }

func (grpcKind) Name() timer.TargetKind { return timer.KindGRPC }

func (grpcKind) headerProblem(key string, values []string) string {
	return metadataProblem(key, values)
}

func (grpcKind) secretHeaderProblem(key string) string {
	if strings.HasSuffix(key, "-Bin") {
		return "expected a name of text metadata, found one that ends with -bin, which is for binary metadata"
	}
	return ""
}

func (grpcKind) secretValueProblem(value string) string {
	if !printable(value) {
		return notPrintable
	}
	return ""
}

type pulsarKind struct {
	noMethod
	anyHeader
}

func (pulsarKind) Name() timer.TargetKind { return timer.KindPulsar }

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

func (anyHeader) headerProblem(string, []string) string { return "" }
func (anyHeader) secretHeaderProblem(string) string     { return "" }
func (anyHeader) secretValueProblem(string) string      { return "" }
