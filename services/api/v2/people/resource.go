// Package people manages the sessions of people who signed in to the page.
package people

import (
	"context"
	"net/http"

	"github.com/carillon-timer/carillon/libs/apikey"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/api/auth"
	"github.com/carillon-timer/carillon/services/api/input"
	"github.com/carillon-timer/carillon/services/api/signin"
	"github.com/carillon-timer/carillon/services/api/v2/param"
	"github.com/carillon-timer/carillon/services/api/v2/route"
)

// Store is the part of the store that people need.
type Store interface{ store.SignIns }

// Resource is the operations on people.
type Resource struct {
	Store    Store
	Auth     *auth.Checker
	Provider *signin.Provider // nil: nobody signs in by one
	Ends     *signin.Ends     // of this process; needed where people sign in
}

// Register adds the operations to r.
func (s *Resource) Register(r *route.Router) {
	route.Add(r, route.Operation{
		Deployment: true,
		Method:     http.MethodPost, Path: "/people/end-sessions", ID: "end-sessions",
		Summary: "End the sessions of a person who signed in to the page",
		Scope:   apikey.Admin,
	}, s.endSessions)
}

type endInput struct {
	param.DryRunParam
	Body endSessionsBody
}

type endSessionsBody struct {
	Subject string `json:"subject" minLength:"1" maxLength:"255" doc:"The person's id at the identity provider. The audit trail has it as the id of an actor of kind person." example:"248289761001"`
}

type endedOutput struct{ Body endedSessionsBody }

type endedSessionsBody struct {
	Subject     string `json:"subject"`
	Issuer      string `json:"issuer" doc:"The identity provider."`
	EndedBefore string `json:"ended_before" format:"date-time" doc:"Sessions that began before this instant are ended, in every process within a second; within five while the database is slow. The person may sign in again."`
}

// endSessions may be repeated: it then also ends what began meanwhile. Nothing tells whether the
// person has a session, because sessions are in cookies.
func (s *Resource) endSessions(ctx context.Context, in *endInput) (*endedOutput, error) {
	if err := s.Auth.RequireDeploymentKey(ctx); err != nil {
		return nil, err //nolint:wrapcheck // it is the answer
	}
	if !s.Provider.SignsIn() {
		return nil, timer.Conflict(
			"", "nobody signs in by an identity provider here: oidc-client-id is not set",
		)
	}
	subject := in.Body.Subject
	if err := input.CheckText("subject", subject, store.MaxSubject); err != nil {
		return nil, err //nolint:wrapcheck // it names the field
	}
	issuer := s.Provider.Issuer()
	beforeMS, err := s.Store.EndSignIns(ctx, issuer, subject)
	if err != nil {
		return nil, err //nolint:wrapcheck // the store says what it was doing
	}
	s.Ends.Forget(subject) // after a dry run the next request reads it again
	return &endedOutput{endedSessionsBody{
		Subject: subject, Issuer: issuer, EndedBefore: input.Instant(beforeMS),
	}}, nil
}
