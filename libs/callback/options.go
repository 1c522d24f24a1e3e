package callback

import (
	"time"

	"github.com/carillon-timer/carillon/libs/egress"
	"github.com/carillon-timer/carillon/libs/encryption"
	"github.com/carillon-timer/carillon/libs/timer"
)

// Opener opens what is sealed in a target; *encryption.Ring is one.
type Opener interface {
	Open(s timer.Sealed, b encryption.Binding) (encryption.Secret, error)
}

// SecretBinding is what the secrets of a target are sealed for. The timer's id is no part of it:
// the store gives that when the target is sealed already.
func SecretBinding(app string) encryption.Binding {
	return encryption.Binding{App: app, Use: encryption.UseTarget}
}

// NetOptions say how callers reach the network. HTTPOptions and GRPCOptions share them.
type NetOptions struct {
	Egress  *egress.Policy // nil: the strict default
	Dial    egress.DialerOptions
	Secrets Opener // nil: targets with secrets are rejected
	// Reserved: header that no target sends, whatever its definition says (Checks.Reserved);
	// targets with it are rejected.
	ReservedHeader string
	AllowInsecure  bool          // whether TLS.Insecure is obeyed; else such targets are rejected
	UserAgent      string        // where a timer sets none; default "Carillon/1"
	IdleTimeout    time.Duration // how long an unused connection is kept; default 60 s
}
