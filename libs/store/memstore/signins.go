package memstore

import (
	"context"

	"github.com/carillon-timer/carillon/libs/store"
)

// person identifies a person at an identity provider.
type person struct{ issuer, subject string }

// EndSignIns ends the sessions of a person.
func (s *Store) EndSignIns(ctx context.Context, issuer, subject string) (int64, error) {
	if err := store.CheckPerson(issuer, subject); err != nil {
		return 0, err //nolint:wrapcheck // it names the argument
	}
	defer s.lockToWrite(ctx)()
	who := person{issuer, subject}
	beforeMS := max(s.endedSignIns[who]+1, s.nowMS()+store.SignInMargin.Milliseconds())
	s.endedSignIns[who] = beforeMS
	s.app("")
	e, err := store.AuditSignInsEnded(issuer, subject, beforeMS)
	s.addAudit(store.ActorOf(ctx), "", e, err)
	return beforeMS, nil
}

// SignInsEnded returns the instant before which sessions of a person are ended.
func (s *Store) SignInsEnded(_ context.Context, issuer, subject string) (int64, error) {
	defer s.lock()()
	return s.endedSignIns[person{issuer, subject}], nil
}
