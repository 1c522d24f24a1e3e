package audit

import (
	"context"
	"net/http"

	"github.com/carillon-timer/carillon/libs/apikey"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/services/api/auth"
	"github.com/carillon-timer/carillon/services/api/problem"
	"github.com/carillon-timer/carillon/services/api/v2/param"
	"github.com/carillon-timer/carillon/services/api/v2/route"
)

// Store is the part of the store that the audit trail needs.
type Store interface {
	store.Definitions
	param.Timers
	AuditTrail(ctx context.Context, q store.AuditQuery) (store.AuditPage, error)
}

// Resource is the operations on the audit trail.
type Resource struct {
	Store    Store
	Auth     *auth.Checker
	Problems *problem.Reporter
}

// Register adds the operations to r.
func (s *Resource) Register(r *route.Router) {
	route.Add(r, route.Operation{
		Method:  http.MethodGet,
		Path:    "/apps/{app}/audit",
		ID:      "list-app-audit",
		Summary: "List the changes of an app, the newest first: who made them, and what was before and after",
		Scope:   apikey.Admin,
	}, s.listOfApp)
	route.Add(r, route.Operation{
		Deployment: true,
		Method:     http.MethodGet,
		Path:       "/audit",
		ID:         "list-audit",
		Summary:    "List the changes of the deployment's own API keys and the ends of sessions, the newest first",
		Scope:      apikey.Admin,
	}, s.listOfDeployment)
}
