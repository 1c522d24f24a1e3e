package apps

import (
	"context"
	"net/http"
	"time"

	"github.com/carillon-timer/carillon/libs/apikey"
	"github.com/carillon-timer/carillon/libs/egress"
	"github.com/carillon-timer/carillon/libs/encryption"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/api/auth"
	"github.com/carillon-timer/carillon/services/api/problem"
	"github.com/carillon-timer/carillon/services/api/v2/route"
)

// Store is the part of the store that apps need.
type Store interface {
	store.Apps
	PutSettings(
		ctx context.Context,
		app string,
		s store.AppSettings,
		version int64,
	) (store.App, error)
	SigningKeys(ctx context.Context, app string) ([]store.SigningKey, error)
	AddSigningKey(ctx context.Context, app string, k store.SigningKey) error
	RetireSigningKey(ctx context.Context, app string, id timer.ID) error
	APIKeys(ctx context.Context, app string) ([]store.APIKey, error)
	AddAPIKey(ctx context.Context, k store.APIKey) error
	RevokeAPIKey(ctx context.Context, app, id string) error
}

// Resource is the operations on apps.
type Resource struct {
	Store    Store
	Auth     *auth.Checker
	Problems *problem.Reporter
	Secrets  *encryption.Keyring // nil: no signing keys
	Egress   *egress.Policy      // of the deployment
	IDs      *timer.IDs
	Now      func() time.Time
}

// Register adds the operations to r.
func (s *Resource) Register(r *route.Router) {
	route.Add(r, route.Operation{
		Method: http.MethodGet, Path: "/apps/{app}/settings", ID: "get-app-settings",
		Summary: "Show an app's limits and rules",
	}, s.getSettings)
	route.Add(r, route.Operation{
		Method: http.MethodPut, Path: "/apps/{app}/settings", ID: "put-app-settings",
		Summary: "Replace an app's limits and rules",
		Scope:   apikey.Admin,
	}, s.putSettings)
	route.Add(r, route.Operation{
		Method: http.MethodGet, Path: "/apps/{app}/signing-keys", ID: "list-signing-keys",
		Summary: "List an app's signing keys, newest first, without their secrets",
		Scope:   apikey.Admin,
	}, s.listSigningKeys)
	route.Add(r, route.Operation{
		Method: http.MethodPost, Path: "/apps/{app}/signing-keys", ID: "create-signing-key",
		Summary: "Make a signing key; its secret is shown this once",
		Status:  http.StatusCreated, Scope: apikey.Admin,
	}, s.createSigningKey)
	route.Add(r, route.Operation{
		Method: http.MethodDelete, Path: "/apps/{app}/signing-keys/{id}", ID: "retire-signing-key",
		Summary: "Retire a signing key",
		Status:  http.StatusNoContent, Scope: apikey.Admin,
	}, s.retireSigningKey)
	route.Add(r, route.Operation{
		Method: http.MethodGet, Path: "/apps/{app}/keys", ID: "list-api-keys",
		Summary: "List an app's API keys, newest first",
		Scope:   apikey.Admin,
	}, s.listKeys)
	route.Add(r, route.Operation{
		Method: http.MethodPost, Path: "/apps/{app}/keys", ID: "create-api-key",
		Summary: "Make an API key of an app; it is shown this once",
		Status:  http.StatusCreated, Scope: apikey.Admin,
	}, s.createKey)
	route.Add(r, route.Operation{
		Method: http.MethodDelete, Path: "/apps/{app}/keys/{id}", ID: "revoke-api-key",
		Summary: "Revoke an API key",
		Status:  http.StatusNoContent, Scope: apikey.Admin,
	}, s.revokeKey)
	route.Add(r, route.Operation{
		Deployment: true,
		Method:     http.MethodGet, Path: "/keys", ID: "list-admin-keys",
		Summary: "List the deployment's own API keys, which are for every app",
		Scope:   apikey.Admin,
	}, s.listDeploymentKeys)
	route.Add(r, route.Operation{
		Deployment: true,
		Method:     http.MethodPost, Path: "/keys", ID: "create-admin-key",
		Summary: "Make an API key for every app; it is shown this once",
		Status:  http.StatusCreated, Scope: apikey.Admin,
	}, s.createDeploymentKey)
	route.Add(r, route.Operation{
		Deployment: true,
		Method:     http.MethodDelete, Path: "/keys/{id}", ID: "revoke-admin-key",
		Summary: "Revoke an API key of the deployment",
		Status:  http.StatusNoContent, Scope: apikey.Admin,
	}, s.revokeDeploymentKey)
	route.Add(r, route.Operation{
		Method: http.MethodGet, Path: "/caller", ID: "get-caller",
		Summary: "Show what the caller's key is for",
	}, s.getCaller)
	route.Add(r, route.Operation{
		Method: http.MethodGet, Path: "/apps", ID: "list-apps",
		Summary: "List the apps that the key is for, by name",
	}, s.listApps)
	route.Add(r, route.Operation{
		Method: http.MethodGet, Path: "/apps/{app}", ID: "get-app",
		Summary: "Show an app",
	}, s.getApp)
	route.Add(r, route.Operation{
		Method: http.MethodPost, Path: "/apps/{app}/freeze", ID: "freeze-app",
		Summary: "Skip all fires of an app from now on",
	}, s.freezeApp)
	route.Add(r, route.Operation{
		Method: http.MethodPost, Path: "/apps/{app}/unfreeze", ID: "unfreeze-app",
		Summary: "End the freeze of an app",
	}, s.unfreezeApp)
}
