package api

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humachi"
	"github.com/go-chi/chi/v5"

	"github.com/carillon-timer/carillon/libs/timer"
)

// v2Version is the version of the API description. Every change of the description increases it.
const v2Version = "2.6.0"

// Limits for requests without a key. The size fits the longest message with each of its 1,024
// characters written as \u00xx, the token, and the rest.
const (
	openBodyBytes       = 8 << 10
	openBodyReadTimeout = 2 * time.Second
)

// AppParam names the app of a request. Embedded structs are exported, because huma reads no others.
type AppParam struct {
	App string `query:"app" required:"true" minLength:"1" maxLength:"64" doc:"The app that owns it."`
}

// TimerParam identifies a timer.
type TimerParam struct {
	AppParam
	ID string `path:"id" pattern:"^[0-9]{1,16}$" doc:"The timer's id."`
}

// PageParam selects a page of a list.
type PageParam struct {
	Limit  int    `query:"limit" default:"100" minimum:"1" maximum:"1000" doc:"Items of a page at the most."`
	Cursor string `query:"cursor" maxLength:"256" doc:"next_cursor of the page before."`
}

// id checks that the caller may act for the app, and parses the id.
func (s *Service) id(ctx context.Context, p *TimerParam) (timer.ID, error) {
	if err := s.authorizeApp(ctx, p.App); err != nil {
		return 0, err
	}
	id, err := timer.ParseID(p.ID)
	if err != nil {
		return 0, timer.NotFound("timer", p.ID)
	}
	return id, nil
}

// ownID is id for a request that changes something.
func (s *Service) ownID(ctx context.Context, p *TimerParam) (timer.ID, error) {
	id, err := s.id(ctx, p)
	if err != nil {
		return 0, err
	}
	return id, checkNotSystemApp("query.app", p.App)
}

// mayChange checks that the caller may act for the app, and that the app can be changed. field is
// where the caller named it.
func (s *Service) mayChange(ctx context.Context, field, app string) error {
	if err := s.authorizeApp(ctx, app); err != nil {
		return err
	}
	return checkNotSystemApp(field, app)
}

// routesV2 adds the authenticated routes of v2 to r, and those without a key to open.
//
//nolint:funlen // a list of routes
func (s *Service) routesV2(r, open chi.Router) huma.API {
	c := huma.DefaultConfig("Carillon", v2Version)
	c.Info.Description = "Registers timers and shows what became of them. A field of a body that is null counts as absent. Durations are text such as 90s, 1h30m or 1d12h, and a day of theirs is always 24 hours."
	c.Info.License = &huma.License{
		Name: "Apache-2.0",
		URL:  "https://www.apache.org/licenses/LICENSE-2.0",
	}
	// The API serves the description itself. A documentation page would load scripts from other
	// sites.
	c.OpenAPIPath, c.DocsPath, c.SchemasPath = "", "", ""
	c.CreateHooks = nil // no $schema links in answers
	c.Transformers = append(c.Transformers, plainProblem)
	c.RejectUnknownQueryParameters = true
	c.Formats = strictFormats(c.Formats)
	c.Components.SecuritySchemes = map[string]*huma.SecurityScheme{keyScheme: {
		Type:        "http",
		Scheme:      "bearer",
		Description: "An API key: crl_<id>_<secret>. Its scope is read, write (which includes read) or admin (which includes both).",
	}}
	api := humachi.New(r, c)
	withoutKey := humachi.New(open, c) // both share one description

	add(
		s,
		api,
		http.MethodPost,
		"/timers",
		"create-timer",
		"Create a timer",
		http.StatusCreated,
		s.createTimer,
	)
	add(
		s,
		api,
		http.MethodPut,
		"/timers",
		"put-timer",
		"Create a timer, or give the one of that name this definition",
		http.StatusOK,
		s.putTimer,
	)
	add(
		s,
		api,
		http.MethodGet,
		"/timers",
		"list-timers",
		"List an app's timers, oldest first",
		http.StatusOK,
		s.listTimers,
	)
	add(
		s,
		api,
		http.MethodDelete,
		"/timers",
		"delete-named-timer",
		"Delete the timer of a name",
		http.StatusNoContent,
		s.deleteNamed,
	)
	add(
		s,
		api,
		http.MethodGet,
		"/timers/{id}",
		"get-timer",
		"Show a timer",
		http.StatusOK,
		s.getTimer,
	)
	add(
		s,
		api,
		http.MethodPatch,
		"/timers/{id}",
		"change-timer",
		"Activate, deactivate or edit a timer",
		http.StatusOK,
		s.patchTimer,
	)
	add(
		s,
		api,
		http.MethodDelete,
		"/timers/{id}",
		"delete-timer",
		"Delete a timer",
		http.StatusNoContent,
		s.deleteTimer,
	)
	add(
		s,
		api,
		http.MethodPost,
		"/timers/{id}/pause",
		"pause-timer",
		"Pause a timer, perhaps until an instant",
		http.StatusOK,
		s.pauseTimer,
	)
	add(
		s,
		api,
		http.MethodPost,
		"/timers/{id}/resume",
		"resume-timer",
		"End a timer's pause",
		http.StatusOK,
		s.resumeTimer,
	)
	add(
		s,
		api,
		http.MethodPost,
		"/timers/{id}/run",
		"run-timer",
		"Call a timer's target now, besides its schedule",
		http.StatusAccepted,
		s.runTimer,
	)
	add(
		s,
		api,
		http.MethodPost,
		"/timers/{id}/reschedule",
		"reschedule-timer",
		"Move a one-shot that has not fired yet",
		http.StatusOK,
		s.rescheduleTimer,
	)
	add(
		s,
		api,
		http.MethodGet,
		"/timers/{id}/fires",
		"list-fires",
		"List a timer's fires: finished ones, or those of the states named",
		http.StatusOK,
		s.listFires,
	)
	add(
		s,
		api,
		http.MethodPost,
		"/timers/{id}/backfills",
		"start-backfill",
		"Make the fires of a past range",
		http.StatusAccepted,
		s.startBackfill,
	)
	add(
		s,
		api,
		http.MethodGet,
		"/backfills/{id}",
		"get-backfill",
		"Show a backfill",
		http.StatusOK,
		s.getBackfill,
	)
	add(
		s,
		api,
		http.MethodDelete,
		"/backfills/{id}",
		"cancel-backfill",
		"Cancel a backfill: what has not been called is skipped",
		http.StatusOK,
		s.cancelBackfill,
	)
	add(
		s,
		api,
		http.MethodGet,
		"/fires/{id}",
		"get-fire",
		"Show a fire and its attempts",
		http.StatusOK,
		s.getFire,
	)
	add(
		s,
		withoutKey,
		http.MethodPost,
		"/fires/{id}/complete",
		completeFireOperation,
		"Say what became of a fire that was accepted",
		http.StatusOK,
		s.completeFire,
	)
	add(
		s,
		api,
		http.MethodPost,
		"/apps/{app}/redrives",
		"redrive-fires",
		"Make failed fires again",
		http.StatusOK,
		s.redriveFires,
	)
	add(
		s,
		api,
		http.MethodGet,
		"/apps/{app}/settings",
		"get-app-settings",
		"Show an app's limits and rules",
		http.StatusOK,
		s.getSettings,
	)
	add(
		s,
		api,
		http.MethodPut,
		"/apps/{app}/settings",
		"put-app-settings",
		"Replace an app's limits and rules",
		http.StatusOK,
		s.putSettings,
	)
	add(
		s,
		api,
		http.MethodGet,
		"/apps/{app}/signing-keys",
		"list-signing-keys",
		"List an app's signing keys, newest first, without their secrets",
		http.StatusOK,
		s.listSigningKeys,
	)
	add(
		s,
		api,
		http.MethodPost,
		"/apps/{app}/signing-keys",
		"create-signing-key",
		"Make a signing key; its secret is shown this once",
		http.StatusCreated,
		s.createSigningKey,
	)
	add(
		s,
		api,
		http.MethodDelete,
		"/apps/{app}/signing-keys/{id}",
		"retire-signing-key",
		"Retire a signing key",
		http.StatusNoContent,
		s.retireSigningKey,
	)
	add(
		s,
		api,
		http.MethodGet,
		"/apps/{app}/keys",
		"list-api-keys",
		"List an app's API keys, newest first",
		http.StatusOK,
		s.listKeys,
	)
	add(
		s,
		api,
		http.MethodPost,
		"/apps/{app}/keys",
		"create-api-key",
		"Make an API key of an app; it is shown this once",
		http.StatusCreated,
		s.createKey,
	)
	add(
		s,
		api,
		http.MethodDelete,
		"/apps/{app}/keys/{id}",
		"revoke-api-key",
		"Revoke an API key",
		http.StatusNoContent,
		s.revokeKey,
	)
	add(
		s,
		api,
		http.MethodGet,
		"/keys",
		"list-admin-keys",
		"List the deployment's own API keys, which are for every app",
		http.StatusOK,
		s.listDeploymentKeys,
	)
	add(
		s,
		api,
		http.MethodPost,
		"/keys",
		"create-admin-key",
		"Make an API key for every app; it is shown this once",
		http.StatusCreated,
		s.createDeploymentKey,
	)
	add(
		s,
		api,
		http.MethodDelete,
		"/keys/{id}",
		"revoke-admin-key",
		"Revoke an API key of the deployment",
		http.StatusNoContent,
		s.revokeDeploymentKey,
	)
	add(s, api, http.MethodGet, "/apps/{app}", "get-app", "Show an app", http.StatusOK, s.getApp)
	add(
		s,
		api,
		http.MethodPost,
		"/apps/{app}/freeze",
		"freeze-app",
		"Skip all fires of an app from now on",
		http.StatusOK,
		s.freezeApp,
	)
	add(
		s,
		api,
		http.MethodPost,
		"/apps/{app}/unfreeze",
		"unfreeze-app",
		"End the freeze of an app",
		http.StatusOK,
		s.unfreezeApp,
	)
	add(
		s,
		api,
		http.MethodGet,
		"/calendars",
		"list-calendars",
		"List an app's calendars, by name",
		http.StatusOK,
		s.listCalendars,
	)
	add(
		s,
		api,
		http.MethodPut,
		"/calendars/{name}",
		"put-calendar",
		"Make or replace a calendar",
		http.StatusOK,
		s.putCalendar,
	)
	add(
		s,
		api,
		http.MethodGet,
		"/calendars/{name}",
		"get-calendar",
		"Show a calendar",
		http.StatusOK,
		s.getCalendar,
	)
	add(
		s,
		api,
		http.MethodDelete,
		"/calendars/{name}",
		"delete-calendar",
		"Delete a calendar that no timer names",
		http.StatusNoContent,
		s.deleteCalendar,
	)
	add(
		s,
		api,
		http.MethodPost,
		"/calendars/{name}/import",
		"import-calendar",
		"Take the dates of an iCalendar file into a calendar",
		http.StatusOK,
		s.importCalendar,
	)
	add(
		s,
		api,
		http.MethodPost,
		"/schedules/preview",
		"preview-schedule",
		"Show the next fires of a schedule, and what it excludes",
		http.StatusOK,
		s.previewSchedule,
	)
	documentSchemas(api.OpenAPI()) // before the bounds of types, which need no documentation
	boundIntegers(api.OpenAPI())
	documentBodies(api.OpenAPI())
	return api
}

// documentBodies documents the answers to unreadable bodies, for each operation with a body.
func documentBodies(d *huma.OpenAPI) {
	for _, p := range d.Paths {
		for _, op := range []*huma.Operation{p.Post, p.Put, p.Patch, p.Delete} {
			if op == nil || op.RequestBody == nil {
				continue
			}
			for status, text := range map[int]string{
				http.StatusBadRequest:            "The body is missing, or is no JSON.",
				http.StatusRequestTimeout:        "The body did not come in time.",
				http.StatusRequestEntityTooLarge: "The body is too long.",
				http.StatusUnsupportedMediaType:  "The body is of another content type.",
			} {
				op.Responses[strconv.Itoa(status)] = &huma.Response{
					Description: text,
					Content:     op.Responses[strconv.Itoa(http.StatusUnprocessableEntity)].Content,
				}
			}
		}
	}
}

const keyScheme = "key"

// add registers an operation. It checks the scope of the caller's key first. It converts every
// error of a handler, because huma would show an unknown one to the caller.
func add[I, O any](
	s *Service,
	api huma.API,
	method, path, id, summary string,
	status int,
	h func(context.Context, *I) (*O, error),
) {
	scope := scopeOf(id, method)
	op := huma.Operation{
		OperationID:     id,
		Method:          method,
		Path:            v2Prefix + path,
		Summary:         summary,
		DefaultStatus:   status,
		MaxBodyBytes:    maxRequestBytes,
		BodyReadTimeout: s.opts.BodyTimeout,
		Errors: []int{
			http.StatusUnauthorized,
			http.StatusForbidden,
			http.StatusNotFound,
			http.StatusConflict,
			http.StatusServiceUnavailable,
		},
	}
	if scope != "" {
		op.Description = "Needs a key of scope " + string(scope) + "."
		op.Security = []map[string][]string{{keyScheme: {}}}
	} else {
		op.MaxBodyBytes, op.BodyReadTimeout = openBodyBytes, -1 // readBodyFirst has read it
	}
	huma.Register(api, op, func(ctx context.Context, in *I) (*O, error) {
		var out *O
		var err error
		if scope != "" {
			err = s.requireScope(ctx, scope)
		}
		if err == nil {
			out, err = h(ctx, in)
		}
		switch err.(type) { //nolint:errorlint // wrapped ones are not for callers
		case nil, huma.StatusError, huma.HeadersError:
		default:
			err = s.problemOf(err)
		}
		return out, err
	})
}
