package store

import (
	"context"
	"time"

	"github.com/carillon-timer/carillon/libs/timer"
)

// MaxSignIn is how long a session of a person at the page may last. So no session is left that
// began before an instant of EndSignIns that is so long ago.
const MaxSignIn = 31 * 24 * time.Hour

// SignInMargin is how far EndSignIns is ahead of the store's clock. Sessions bear the clock of the
// process that began them, which may be ahead by less.
const SignInMargin = time.Second

// Lengths of what identifies a person, in bytes.
const (
	MaxIssuer  = 512
	MaxSubject = 255
)

// SignIns has since when sessions of persons at the page count. The sessions themselves are in
// cookies: S42.
type SignIns interface {
	// EndSignIns ends all sessions of a person that have begun, and returns the instant before which
	// they began: the store's clock plus SignInMargin, or later. It is later than that of every call
	// before, so it also ends a session that began at such an instant. It adds an entry to the audit
	// trail of the deployment. A repeated call also ends what began meanwhile, and adds another
	// entry. It knows no persons, so it ends nothing for an unknown one. Error:
	// invalid.
	EndSignIns(ctx context.Context, issuer, subject string) (beforeMS int64, err error)
	// SignInsEnded returns the instant before which sessions of a person are ended, 0: none is.
	SignInsEnded(ctx context.Context, issuer, subject string) (beforeMS int64, err error)
}

// CheckPerson returns why an issuer and a subject identify nobody, or nil.
func CheckPerson(issuer, subject string) error {
	switch {
	case issuer == "" || len(issuer) > MaxIssuer:
		return timer.Invalid("issuer", "an issuer has 1 to 512 bytes")
	case subject == "" || len(subject) > MaxSubject:
		return timer.Invalid("subject", "a subject has 1 to 255 bytes")
	}
	return nil
}
