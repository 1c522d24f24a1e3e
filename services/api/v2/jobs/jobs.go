package jobs

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"strings"

	"github.com/carillon-timer/carillon/libs/apikey"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/api/definition"
	"github.com/carillon-timer/carillon/services/api/input"
	"github.com/carillon-timer/carillon/services/api/v2/param"
)

const (
	sampleSize = 10
	// maxTotal limits how far timers are counted.
	maxTotal = 1_000_000
	// sampleSearches limits the searches for a sample. A search may find nothing although there are
	// more timers.
	sampleSearches = 5
)

type startInput struct {
	param.PathAppParam
	param.DryRunParam
	param.KeyHeader

	Body startBody
}

type jobOutput struct {
	Status   int
	Location string `header:"Location" doc:"The job's path."`
	Body     jobBody
}

// startJob creates a job, which migrators carry out. Under an idempotency key the id is the same
// each time, so a repetition finds the job. If the process dies before the job is created, nothing
// happened.
func (s *Resource) startJob(ctx context.Context, in *startInput) (*jobOutput, error) {
	if err := s.Auth.MayChange(ctx, "path.app", in.App); err != nil {
		return nil, err
	}
	action := store.JobAction(in.Body.Action)
	if err := s.Auth.RequireScopeOf(ctx, in.App, scopeOf(action)); err != nil {
		return nil, err
	}
	r, err := s.read(in.App, &in.Body)
	if err != nil {
		return nil, err
	}
	j := store.Job{App: in.App, Action: action}
	if j.Request, err = encode(r); err != nil {
		return nil, err
	}
	out, err := s.start(ctx, &j, r.Filter, in.Key)
	if err == nil && in.DryRun {
		j.ID = 0
		return s.dryRun(ctx, &j, r)
	}
	return out, err
}

// encode encodes a request for the store, which compares and limits its bytes: so <, > and & stay as
// they are.
func encode(r *store.JobRequest) ([]byte, error) {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	if err := e.Encode(r); err != nil {
		return nil, fmt.Errorf("encoding the job: %w", err)
	}
	return bytes.TrimSuffix(text.Bytes(), []byte("\n")), nil
}

// scopeOf returns the scope that a job of an action needs: that of the same change of one timer.
func scopeOf(a store.JobAction) apikey.Scope {
	if a == store.JobPause || a == store.JobResume || a == store.JobRun {
		return apikey.Operate
	}
	return apikey.Write
}

// start creates a job of an app that exists.
func (s *Resource) start(
	ctx context.Context,
	j *store.Job,
	f store.Filter,
	key string,
) (*jobOutput, error) {
	app, err := s.Store.App(ctx, j.App)
	if err != nil {
		return nil, err //nolint:wrapcheck // the store says what it was doing
	}
	if err := s.count(ctx, j, f); err != nil {
		return nil, err
	}
	j.ID = s.IDs.Next()
	if key != "" {
		k := param.KeyOf("job "+j.App, 0, key)
		kept, err := s.Store.PutIfAbsent(ctx, j.App, k, nil, int64(j.ID)) // StartJob compares
		if err != nil {
			return nil, err //nolint:wrapcheck // the store says what it was doing
		}
		j.ID = timer.ID(kept)
	}
	if app.Frozen && j.Action == store.JobRun {
		// Each of its fires would be refused, also if the app is frozen a moment later. A repeated
		// request has its job.
		if _, err := s.Store.Job(ctx, j.App, j.ID); timer.CodeOf(err) == timer.CodeNotFound {
			return nil, store.FrozenConflict(j.App)
		}
	}
	started, err := s.Store.StartJob(ctx, *j)
	if err != nil {
		return nil, err //nolint:wrapcheck // the store says what it was doing
	}
	out := &jobOutput{Status: http.StatusAccepted, Body: showJob(&started)}
	if out.Body.DryRun = store.IsDryRun(ctx); !out.Body.DryRun {
		out.Location = input.V2Prefix + "/apps/" + url.PathEscape(j.App) + "/jobs/" +
			started.ID.String()
	}
	return out, nil
}

// count sets how many timers the filter selects.
func (s *Resource) count(ctx context.Context, j *store.Job, f store.Filter) error {
	n, err := s.Store.Count(ctx, store.SearchQuery{Filter: f, Limit: maxTotal})
	if err != nil {
		return err //nolint:wrapcheck // the store says what it was doing
	}
	j.Total, j.AtLeast = int64(n.N), n.Minimum
	return nil
}

// dryRun answers a job that is not created.
func (s *Resource) dryRun(
	ctx context.Context,
	j *store.Job,
	r *store.JobRequest,
) (*jobOutput, error) {
	out := &jobOutput{Status: http.StatusOK, Body: showJob(j)}
	out.Body.DryRun = true
	q := store.SearchQuery{Filter: r.Filter, Limit: sampleSize}
	for range sampleSearches {
		page, err := s.Store.Search(ctx, q)
		if err != nil {
			return nil, err //nolint:wrapcheck // the store says what it was doing
		}
		for i := range page.Timers {
			t := &page.Timers[i]
			out.Body.Sample = append(out.Body.Sample, sampleBody{
				ID: t.ID.String(), Name: t.Name, Status: string(t.Status),
				Labels: t.Definition.Labels,
			})
		}
		q.After, q.Limit = page.Next, sampleSize-len(out.Body.Sample)
		if !page.More || q.Limit <= 0 {
			break
		}
	}
	return out, nil
}

// read converts a body, or returns all its errors.
func (s *Resource) read(app string, b *startBody) (*store.JobRequest, error) {
	var r input.BodyReader
	out := &store.JobRequest{Filter: s.readFilter(app, b, &r)}
	action := store.JobAction(b.Action)
	s.readPause(b, out, &r)
	if relabels := action == store.JobRelabel; relabels {
		out.Set, out.Remove = b.SetLabels, b.RemoveLabels
		r.Add(labelFaults(b)...)
	} else {
		onlyWith(&r, store.JobRelabel, "set_labels", len(b.SetLabels) > 0)
		onlyWith(&r, store.JobRelabel, "remove_labels", len(b.RemoveLabels) > 0)
	}
	if len(r.Errs) > 0 {
		return nil, s.Problems.Invalid(r.Errs)
	}
	return out, nil
}

// readFilter reads the filter. The actions that change the status select only timers that they
// change, unless the caller names a status.
func (s *Resource) readFilter(app string, b *startBody, r *input.BodyReader) store.Filter {
	f := store.Filter{
		App:          app,
		Status:       timer.Status(b.Filter.Status),
		NamePrefix:   b.Filter.NamePrefix,
		NameContains: b.Filter.NameContains,
		TargetHost:   strings.ToLower(b.Filter.TargetHost),
	}
	var err error
	if f.Labels, err = input.ParseSelector(b.Filter.Labels); err != nil {
		r.Invalid("filter.labels", message(err))
	} else if selectsAll(&f) && !b.All {
		r.Invalid(
			"all",
			"expected a filter, or all: true for every timer of the app, found neither",
		)
	}
	const wrong = "expected %s for the action %s, found %s: leave it out, or change it"
	switch store.JobAction(b.Action) {
	case store.JobPause:
		if f.Status == timer.StatusInactive {
			r.Invalid("filter.status", fmt.Sprintf(wrong, "active or paused", b.Action, f.Status))
		}
		if f.Status == "" {
			f.Status = timer.StatusActive
		}
	case store.JobResume:
		if f.Status != "" && f.Status != timer.StatusPaused {
			r.Invalid("filter.status", fmt.Sprintf(wrong, "paused", b.Action, f.Status))
		}
		f.Status = timer.StatusPaused
	case store.JobDelete, store.JobRun, store.JobRelabel, store.JobDeleteApp:
	}
	return f
}

// selectsAll reports whether a filter selects every timer of its app.
func selectsAll(f *store.Filter) bool {
	return reflect.DeepEqual(*f, store.Filter{App: f.App})
}

// onlyWith refuses a field that is set and that only another action has.
func onlyWith(r *input.BodyReader, action store.JobAction, field string, set bool) {
	if set {
		r.Invalid(field, fmt.Sprintf(
			"expected %s only with the action %s: leave it out", field, action,
		))
	}
}

// readPause reads what only a pause has.
func (s *Resource) readPause(b *startBody, out *store.JobRequest, r *input.BodyReader) {
	if store.JobAction(b.Action) != store.JobPause {
		onlyWith(r, store.JobPause, "reason", b.Reason != "")
		onlyWith(r, store.JobPause, "until", b.Until != "")
		return
	}
	if out.Reason = b.Reason; b.Reason != "" {
		r.Add(input.Collect(input.CheckText("reason", b.Reason, timer.MaxReasonLen))...)
	}
	at := r.Instant("until", b.Until)
	switch {
	case at == nil:
	case !at.After(s.Now()) || at.Year() > input.LastYear:
		r.Invalid("until", fmt.Sprintf(
			"expected an instant from now to the year %d, found %q", input.LastYear, b.Until,
		))
	default:
		out.UntilMS = input.CeilMS(*at)
	}
}

// labelFaults checks the labels of a relabel.
func labelFaults(b *startBody) []*timer.Error {
	if len(b.SetLabels)+len(b.RemoveLabels) == 0 {
		return []*timer.Error{timer.Invalid(
			"set_labels",
			"expected set_labels or remove_labels, found neither: give what is to be changed",
		)}
	}
	bad := definition.CheckLabels(b.SetLabels)
	for i := range bad {
		if rest, ok := strings.CutPrefix(bad[i].Field, "labels"); ok {
			bad[i].Field = "set_labels" + rest
		}
	}
	for i, name := range b.RemoveLabels {
		field := fmt.Sprintf("remove_labels[%d]", i)
		bad = append(bad, input.Collect(input.CheckText(field, name, timer.MaxLabelLen))...)
		if _, both := b.SetLabels[name]; both {
			bad = append(bad, timer.Invalid(field, fmt.Sprintf(
				"expected each label once, found %q in set_labels too: leave one of the two out",
				name,
			)))
		}
	}
	return bad
}

// message returns the text of an error without its field.
func message(err error) string {
	if e, ok := err.(*timer.Error); ok { //nolint:errorlint // the parser returns it unwrapped
		return e.Msg
	}
	return err.Error()
}

// JobParam identifies a job. It is exported, because huma reads no other embedded structs.
type JobParam struct {
	param.PathAppParam

	ID string `path:"id" pattern:"^[0-9]{1,16}$" doc:"The job's id."`
}

func (s *Resource) getJob(ctx context.Context, in *JobParam) (*jobOutput, error) {
	if err := s.Auth.AuthorizeApp(ctx, in.App); err != nil {
		return nil, err
	}
	id, err := timer.ParseID(in.ID)
	if err != nil {
		return nil, timer.NotFound("job", in.ID)
	}
	j, err := s.Store.Job(ctx, in.App, id)
	if err != nil {
		return nil, err //nolint:wrapcheck // the store says what it was doing
	}
	return &jobOutput{Status: http.StatusOK, Body: showJob(&j)}, nil
}

type cancelInput struct {
	JobParam
	param.DryRunParam
}

func (s *Resource) cancelJob(ctx context.Context, in *cancelInput) (*jobOutput, error) {
	if err := s.Auth.MayChange(ctx, "path.app", in.App); err != nil {
		return nil, err
	}
	id, err := timer.ParseID(in.ID)
	if err != nil {
		return nil, timer.NotFound("job", in.ID)
	}
	j, err := s.Store.CancelJob(ctx, in.App, id)
	if err != nil {
		return nil, err //nolint:wrapcheck // the store says what it was doing
	}
	out := &jobOutput{Status: http.StatusOK, Body: showJob(&j)}
	out.Body.DryRun = in.DryRun
	return out, nil
}

type listInput struct {
	param.PathAppParam
	param.PageParam
}

type listOutput struct{ Body jobsBody }

func (s *Resource) listJobs(ctx context.Context, in *listInput) (*listOutput, error) {
	if err := s.Auth.AuthorizeApp(ctx, in.App); err != nil {
		return nil, err
	}
	before := timer.ID(0)
	if in.Cursor != "" {
		position, err := input.DecodeCursor(input.JobsCursor, in.Cursor)
		if err != nil {
			return nil, err
		}
		if before, err = timer.ParseID(position); err != nil {
			return nil, input.NotACursor()
		}
	}
	found, err := s.Store.Jobs(ctx, in.App, before, in.Limit+1)
	if err != nil {
		return nil, err //nolint:wrapcheck // the store says what it was doing
	}
	out := &listOutput{}
	if len(found) > in.Limit {
		found = found[:in.Limit]
		out.Body.NextCursor = input.EncodeCursor(
			input.JobsCursor,
			found[in.Limit-1].ID.String(),
		)
	}
	out.Body.Items = make([]jobBody, len(found))
	for i := range found {
		out.Body.Items[i] = showJob(&found[i])
	}
	return out, nil
}
