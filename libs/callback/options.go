package callback

import (
	"time"

	"github.com/carillon-timer/carillon/libs/egress"
	"github.com/carillon-timer/carillon/libs/encryption"
	"github.com/carillon-timer/carillon/libs/timer"
)

// Opener decrypts the secrets of a target; *encryption.Keyring implements it.
type Opener interface {
	Open(s timer.Sealed, b encryption.Binding) (encryption.Secret, error)
}

// SecretBinding returns the binding of a target's secrets. It does not contain the timer's id,
// because the store assigns that after encryption.
func SecretBinding(app string) encryption.Binding {
	return encryption.Binding{App: app, Use: encryption.UseTarget}
}

// NetOptions configure how callers use the network. HTTPOptions and GRPCOptions share them.
type NetOptions struct {
	Egress  *egress.Policy // nil: the strict default
	Dial    egress.DialerOptions
	Secrets Opener // nil: targets with secrets are rejected
	// ReservedHeader is a header that no target may send (see Checks.ReservedHeader); targets with
	// it are rejected.
	ReservedHeader string
	// whether TLS.Insecure is allowed; otherwise such targets are rejected
	AllowInsecure bool
	UserAgent     string        // of targets that set none; default "Carillon/1"
	IdleTimeout   time.Duration // how long an idle connection is kept; default 60 s
}
