package api

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humachi"
	"github.com/go-chi/chi/v5"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
)

// v2Version is the version of the API's description; it grows with every change of the description.
const v2Version = "2.1.0"

const bodyReadTimeout = 10 * time.Second

// AppParam names the app that a call is for. Embedded structs are exported, for huma reads no others.
type AppParam struct {
	App string `query:"app" required:"true" minLength:"1" maxLength:"64" doc:"The app that owns the timer."`
}

// TimerParam names a timer.
type TimerParam struct {
	AppParam
	ID string `path:"id" pattern:"^[0-9]{1,16}$" doc:"The timer's id."`
}

// id checks that the caller may use the app, and reads the id.
func (s *Service) id(ctx context.Context, p *TimerParam) (timer.ID, error) {
	if err := s.mayUse(ctx, p.App); err != nil {
		return 0, err
	}
	id, err := timer.ParseID(p.ID)
	if err != nil {
		return 0, timer.NotFound("timer", p.ID)
	}
	return id, nil
}

type createInput struct {
	Key  string `header:"Idempotency-Key" minLength:"1" maxLength:"255" doc:"Repeating a create under the same key within a day makes no second timer; another request under it is a conflict."`
	Body newTimerBody
}

type createOutput struct {
	Status   int
	Location string `header:"Location" doc:"The timer's path."`
	Body     timerBody
}

type timerOutput struct{ Body timerBody }

func (s *Service) routesV2(r chi.Router) huma.API {
	c := huma.DefaultConfig("Carillon", v2Version)
	c.Info.Description = "Registers timers and shows what became of them."
	c.Info.License = &huma.License{Name: "Apache-2.0", URL: "https://www.apache.org/licenses/LICENSE-2.0"}
	c.OpenAPIPath, c.DocsPath, c.SchemasPath = "", "", "" // the description is served without a key; a page would load scripts from elsewhere
	c.CreateHooks = nil                                   // no $schema links in answers
	c.Transformers = append(c.Transformers, shorten)
	c.RejectUnknownQueryParameters = true
	api := humachi.New(r, c)

	add(s, api, http.MethodPost, "/timers", "create-timer", "Create a timer", http.StatusCreated, s.createTimer)
	add(s, api, http.MethodGet, "/timers", "list-timers", "List an app's timers, oldest first", http.StatusOK, s.listTimers)
	add(s, api, http.MethodGet, "/timers/{id}", "get-timer", "Show a timer", http.StatusOK, s.getTimer)
	add(s, api, http.MethodPatch, "/timers/{id}", "set-timer-status", "Activate or deactivate a timer", http.StatusOK, s.patchTimer)
	add(s, api, http.MethodDelete, "/timers/{id}", "delete-timer", "Delete a timer", http.StatusNoContent, s.deleteTimer)
	add(s, api, http.MethodGet, "/timers/{id}/fires", "list-fires", "List a timer's finished fires, latest due first", http.StatusOK, s.listFires)
	add(s, api, http.MethodGet, "/fires/{id}", "get-fire", "Show a fire and its attempts", http.StatusOK, s.getFire)
	return api
}

// add registers an operation. Every error a handler returns is translated here: huma would show an unknown one to the caller.
func add[I, O any](s *Service, api huma.API, method, path, id, summary string, status int, h func(context.Context, *I) (*O, error)) {
	op := huma.Operation{
		OperationID: id, Method: method, Path: v2Prefix + path, Summary: summary, DefaultStatus: status,
		MaxBodyBytes: maxRequestBytes, BodyReadTimeout: bodyReadTimeout,
		Errors: []int{http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusConflict, http.StatusServiceUnavailable},
	}
	huma.Register(api, op, func(ctx context.Context, in *I) (*O, error) {
		out, err := h(ctx, in)
		if _, told := err.(huma.StatusError); err != nil && !told { //nolint:errorlint // wrapped ones are not for callers
			err = s.problemOf(err)
		}
		return out, err
	})
}

func (s *Service) createTimer(ctx context.Context, in *createInput) (*createOutput, error) {
	if err := s.mayUse(ctx, in.Body.App); err != nil {
		return nil, err
	}
	n, bad := s.newTimer(&in.Body, in.Key)
	if len(bad) > 0 {
		return nil, s.problems(bad)
	}
	c, err := s.createOne(ctx, n)
	if err != nil {
		return nil, err
	}
	out := &createOutput{
		Status: http.StatusCreated, Location: v2Prefix + "/timers/" + c.Timer.ID.String() + "?app=" + url.QueryEscape(c.Timer.App),
		Body: showTimer(&c.Timer, s.opts.Now()),
	}
	if c.Existing {
		out.Status = http.StatusOK
	}
	return out, nil
}

func (s *Service) getTimer(ctx context.Context, in *TimerParam) (*timerOutput, error) {
	id, err := s.id(ctx, in)
	if err != nil {
		return nil, err
	}
	t, err := s.opts.Store.Timer(ctx, in.App, id)
	if err != nil {
		return nil, err //nolint:wrapcheck // the store says what it was doing
	}
	return &timerOutput{showTimer(&t, s.opts.Now())}, nil
}

type listTimersInput struct {
	AppParam
	Status string `query:"status" enum:"active,inactive" doc:"Only timers of this status."`
	PageParam
}

// PageParam selects a page of a list.
type PageParam struct {
	Limit  int    `query:"limit" default:"100" minimum:"1" maximum:"1000" doc:"Items of a page at the most."`
	Cursor string `query:"cursor" maxLength:"256" doc:"next_cursor of the page before."`
}

type timersOutput struct{ Body timersBody }

func (s *Service) listTimers(ctx context.Context, in *listTimersInput) (*timersOutput, error) {
	if err := s.mayUse(ctx, in.App); err != nil {
		return nil, err
	}
	after, err := decodeTimersCursor(in.Cursor)
	if err != nil {
		return nil, err
	}
	// One more than asked for tells whether there is a next page.
	found, err := s.opts.Store.List(ctx, store.Query{App: in.App, Status: timer.Status(in.Status), After: after, Limit: in.Limit + 1})
	if err != nil {
		return nil, err //nolint:wrapcheck // the store says what it was doing
	}
	out := &timersOutput{timersBody{Items: make([]timerBody, 0, len(found))}}
	if len(found) > in.Limit {
		found = found[:in.Limit]
		out.Body.NextCursor = encodeCursor(timersCursor, found[in.Limit-1].ID.String())
	}
	now := s.opts.Now()
	for i := range found {
		out.Body.Items = append(out.Body.Items, showTimer(&found[i], now))
	}
	return out, nil
}

type patchTimerInput struct {
	TimerParam
	Body statusBody
}

func (s *Service) patchTimer(ctx context.Context, in *patchTimerInput) (*timerOutput, error) {
	id, err := s.id(ctx, &in.TimerParam)
	if err != nil {
		return nil, err
	}
	if err := checkOwn("query.app", in.App); err != nil {
		return nil, err
	}
	t, err := s.setStatusOne(ctx, store.StatusChange{App: in.App, ID: id, Status: timer.Status(in.Body.Status)})
	if err != nil {
		return nil, err
	}
	return &timerOutput{showTimer(&t, s.opts.Now())}, nil
}

func (s *Service) deleteTimer(ctx context.Context, in *TimerParam) (*struct{}, error) {
	id, err := s.id(ctx, in)
	if err != nil {
		return nil, err
	}
	if err := checkOwn("query.app", in.App); err != nil {
		return nil, err
	}
	_, err = s.setStatusOne(ctx, store.StatusChange{App: in.App, ID: id, Status: timer.StatusDeleted})
	return nil, err
}
