package audit

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/api/input"
	"github.com/carillon-timer/carillon/services/api/v2/param"
)

// ScanLimit is how many entries one request examines, however few match.
const ScanLimit = 20_000

// FilterParam selects entries. It is exported, because huma reads no other embedded structs.
type FilterParam struct {
	Kind     string `query:"kind" enum:"timer,app,settings,calendar,api_key,signing_key,backfill,redrive,job,fire,person" doc:"Only changes of this kind of resource."`
	Resource string `query:"resource" maxLength:"255" doc:"Only changes of this resource: its id, or the name of a calendar. Needs kind."`
	Action   string `query:"action" enum:"create,update,delete,activate,deactivate,pause,resume,run,freeze,unfreeze,cancel,complete,test,end_sessions" doc:"Only these changes."`
	Actor    string `query:"actor" maxLength:"255" doc:"Only changes by this actor: the id of actor, such as the public id of an API key."`
	From     string `query:"from" maxLength:"40" doc:"Only changes at this instant (RFC 3339) or later."`
	To       string `query:"to" maxLength:"40" doc:"Only changes before this instant (RFC 3339)."`
}

type listInput struct {
	param.PathAppParam
	param.PageParam
	FilterParam

	Timer string `query:"timer" maxLength:"128" doc:"Only changes of this timer: its id, or its name. Where no timer has the name now, those of deleted ones that had it."`
}

type deploymentInput struct {
	param.PageParam
	FilterParam
}

type listOutput struct{ Body auditBody }

type auditBody struct {
	Items      []AuditEntryBody `json:"items" nullable:"false"`
	NextCursor string           `json:"next_cursor" doc:"Pass it as cursor, with the same selection, for the next page; empty on the last one. A page may have fewer items than limit, or none, and still a next_cursor: a request examines a limited number of entries."`
}

func (s *Resource) listOfApp(ctx context.Context, in *listInput) (*listOutput, error) {
	if err := s.Auth.AuthorizeApp(ctx, in.App); err != nil {
		return nil, err //nolint:wrapcheck // it is the answer
	}
	q := store.AuditQuery{App: in.App}
	if err := s.selectTimer(ctx, in, &q); err != nil {
		return nil, err
	}
	return s.list(ctx, &q, &in.PageParam, &in.FilterParam)
}

func (s *Resource) listOfDeployment(
	ctx context.Context,
	in *deploymentInput,
) (*listOutput, error) {
	if err := s.Auth.RequireDeploymentKey(ctx); err != nil {
		return nil, err //nolint:wrapcheck // it is the answer
	}
	return s.list(ctx, &store.AuditQuery{}, &in.PageParam, &in.FilterParam)
}

// selectTimer reads the parameter timer.
func (s *Resource) selectTimer(ctx context.Context, in *listInput, q *store.AuditQuery) error {
	if in.Timer == "" {
		return nil
	}
	if in.Kind != "" && in.Kind != string(store.AuditTimer) || in.Resource != "" {
		return timer.Invalid(
			"query.timer",
			"expected timer without another kind and without resource: leave one of them out",
		)
	}
	q.Kind = store.AuditTimer
	found, ok, err := param.FindTimer(ctx, s.Store, in.App, in.Timer)
	if err != nil {
		return err //nolint:wrapcheck // the store says what it was doing
	}
	if ok {
		q.Resource = found.ID.String()
		return nil
	}
	if id, err := timer.ParseID(strings.TrimSpace(in.Timer)); err == nil {
		q.Resource = id.String()
		return nil
	}
	q.Name = in.Timer
	return nil
}

// list reads a page. Entries that are added meanwhile are on no later page, because those go back in
// time.
func (s *Resource) list(
	ctx context.Context,
	q *store.AuditQuery,
	page *param.PageParam,
	f *FilterParam,
) (*listOutput, error) {
	if err := s.read(q, page, f); err != nil {
		return nil, err
	}
	found, err := s.Store.AuditTrail(ctx, *q)
	if err != nil {
		return nil, fmt.Errorf("listing changes: %w", err)
	}
	out := &listOutput{}
	if out.Body.Items, err = s.showPage(ctx, found.Entries); err != nil {
		return nil, err
	}
	if shown := len(out.Body.Items); shown < len(found.Entries) {
		found.Next = found.Entries[shown-1].Seq
	}
	if found.Next != 0 {
		out.Body.NextCursor = input.EncodeCursor(
			input.AuditCursor, strconv.FormatInt(found.Next, 10),
		)
	}
	return out, nil
}

// read converts the parameters, or returns all their errors.
func (s *Resource) read(q *store.AuditQuery, page *param.PageParam, f *FilterParam) error {
	var r input.BodyReader
	if f.Kind != "" {
		q.Kind = store.AuditKind(f.Kind)
	}
	if f.Resource != "" {
		if q.Resource = f.Resource; q.Kind == "" {
			r.Invalid("query.resource", "expected kind with resource, found none: add kind")
		}
	}
	q.Action, q.Actor = store.AuditAction(f.Action), f.Actor
	if at := r.Instant("query.from", f.From); at != nil {
		q.FromMS = input.CeilMS(*at)
	}
	if at := r.Instant("query.to", f.To); at != nil {
		if q.ToMS = input.EndMS(*at); f.From != "" && input.CeilMS(*at) <= q.FromMS {
			r.Invalid("query.to", fmt.Sprintf(
				"expected an instant later than from (%q), found %q", f.From, f.To))
		}
	}
	if len(r.Errs) > 0 {
		return s.Problems.Invalid(r.Errs) //nolint:wrapcheck // it is the answer
	}
	q.Limit, q.ScanLimit = page.Limit, ScanLimit
	if page.Cursor == "" {
		return nil
	}
	text, err := input.DecodeCursor(input.AuditCursor, page.Cursor)
	if err != nil {
		return err //nolint:wrapcheck // it names the parameter
	}
	if q.Before, err = strconv.ParseInt(text, 10, 64); err != nil || q.Before <= 0 {
		return input.NotACursor() //nolint:wrapcheck // as above
	}
	return nil
}
