package timers

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"reflect"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/api/definition"
	"github.com/carillon-timer/carillon/services/api/input"
	"github.com/carillon-timer/carillon/services/api/v2/param"
)

type createInput struct {
	param.DryRunParam

	Key  string `header:"Idempotency-Key" minLength:"1" maxLength:"255" doc:"Repeating a create under the same key within a day makes no second timer; another request under it is a conflict."`
	Body newTimerBody
}

type createOutput struct {
	Status   int
	Location string `header:"Location" doc:"The timer's path."`
	ETag     string `header:"ETag" doc:"The version of the definition, in quotes."`
	Body     timerBody
}

func (s *Resource) createTimer(ctx context.Context, in *createInput) (*createOutput, error) {
	if err := s.Auth.AuthorizeApp(ctx, in.Body.App); err != nil {
		return nil, err
	}
	n, err := s.newTimer(ctx, &in.Body, in.Key, nil)
	if err != nil {
		return nil, err
	}
	c, err := s.createWithKey(ctx, n)
	if err != nil {
		return nil, err
	}
	if in.DryRun {
		return s.dryRun(ctx, &c.Timer, !c.Existing)
	}
	return s.timerResponse(ctx, &c.Timer, !c.Existing)
}

// createWithKey creates the timer of a request that may have an idempotency key. A request is
// recognized by the hash of its encrypted form, which reveals no secret but depends on the
// encryption key. Before a conflict is reported, the request is therefore compared in the form of
// each other key of the keyring. That costs one transaction per key, only on a conflict. A key
// removed from the keyring cannot be compared, so it must stay a day longer, as idempotency keys
// do.
func (s *Resource) createWithKey(
	ctx context.Context,
	n store.NewTimer,
) (store.CreateResult, error) {
	c, err := s.Writer.Create(ctx, n)
	if n.IdempotencyKey == "" || s.Secrets == nil {
		return c, err
	}
	for _, keyring := range s.Secrets.Others() {
		if e, ok := errors.AsType[*timer.Error](
			err,
		); !ok || e.Code != timer.CodeConflict ||
			e.Field != "idempotency_key" {
			break
		}
		d, changed, bad := keyring.ReencryptDefinition(n.Definition, n.App)
		if bad != nil || !changed {
			break // it has no secrets
		}
		other := n
		other.Definition = d
		other.RequestHash = hashOf(&other)
		// The stored form uses the first key, also where the idempotency key has expired in the
		// meantime.
		other.Definition = n.Definition
		c, err = s.Writer.Create(ctx, other)
	}
	return c, err
}

// timerResponse returns a timer and its path.
func (s *Resource) timerResponse(
	ctx context.Context,
	t *timer.Timer,
	created bool,
) (*createOutput, error) {
	shown, err := s.showChanged(ctx, t)
	if err != nil {
		return nil, err
	}
	out := &createOutput{
		Status:   http.StatusOK,
		Location: input.V2Prefix + "/timers/" + t.ID.String() + "?app=" + url.QueryEscape(t.App),
		ETag:     shown.ETag,
		Body:     shown.Body,
	}
	if created {
		out.Status = http.StatusCreated
	}
	return out, nil
}

type putInput struct {
	param.DryRunParam
	IfMatchParam

	IfNoneMatch string `header:"If-None-Match" enum:"*" doc:"*: only if there is no timer of this name; else 412."`

	Body newTimerBody
}

// putTimer creates a timer or edits the one of its name: see put. Another caller may take or free the name
// between the two. A create that finds a timer edits it, and an edit that finds none creates it,
// until one succeeds. Of two concurrent callers the later one wins completely.
func (s *Resource) putTimer(ctx context.Context, in *putInput) (*createOutput, error) {
	if err := s.Auth.AuthorizeApp(ctx, in.Body.App); err != nil {
		return nil, err
	}
	stored, err := s.storedDefinition(ctx, &in.Body)
	if err != nil {
		return nil, err
	}
	n, err := s.newTimer(ctx, &in.Body, "", stored)
	if err != nil {
		return nil, err
	}
	t, created, err := s.putIf(ctx, n, in)
	if err != nil {
		return nil, in.precondition(err)
	}
	if in.DryRun {
		return s.dryRun(ctx, &t, created)
	}
	return s.timerResponse(ctx, &t, created)
}

// putIf is put with the conditions of a request. The store checks them in the transaction that
// writes.
func (s *Resource) putIf(
	ctx context.Context,
	n store.NewTimer,
	in *putInput,
) (t timer.Timer, created bool, err error) {
	status := timer.Status(in.Body.Status)
	switch {
	case in.IfNoneMatch != "":
		c, err := s.Writer.Create(ctx, n)
		if err == nil && c.Existing || timer.CodeOf(err) == timer.CodeConflict {
			return t, false, errExists()
		}
		return c.Timer, true, err
	case in.IfMatch != "":
		t, err = s.editNamed(ctx, n, in.version())
		if timer.CodeOf(err) == timer.CodeNotFound {
			return t, false, timer.Conflict(ifVersion, "there is no timer of this name")
		}
		if err == nil {
			t, err = s.putStatus(ctx, t, status)
		}
		return t, false, err
	default:
		return s.put(ctx, n, status)
	}
}

// put creates a timer, or gives the one of its name the definition and the status.
func (s *Resource) put(
	ctx context.Context,
	n store.NewTimer,
	status timer.Status,
) (t timer.Timer, created bool, err error) {
	for range input.EditTries {
		c, err := s.Writer.Create(ctx, n)
		if err == nil && !c.Existing {
			return c.Timer, true, nil
		}
		t := c.Timer
		if timer.CodeOf(err) == timer.CodeConflict {
			t, err = s.editNamed(ctx, n, 0)
		}
		if err == nil {
			t, err = s.putStatus(ctx, t, status)
		}
		if timer.CodeOf(err) == timer.CodeNotFound {
			continue // it was deleted in the meantime
		}
		return t, false, err
	}
	return t, false, timer.Unavailable("the name changes its owner too often", nil)
}

// storedDefinition returns the definition from which a body's REDACTED secrets are taken, or nil
// where the body has none.
func (s *Resource) storedDefinition(
	ctx context.Context,
	b *newTimerBody,
) (*timer.Definition, error) {
	if !definition.HasRedactedSecrets(input.OrZero(b.Target)) &&
		!definition.HasRedactedSecrets(b.Targets...) {
		return nil, nil //nolint:nilnil // nothing is wanted
	}
	t, err := s.Store.TimerByName(ctx, b.App, b.Name)
	if timer.CodeOf(err) == timer.CodeNotFound {
		return nil, nil //nolint:nilnil // reading the secrets reports that there is none
	}
	if err != nil {
		return nil, err
	}
	return &t.Definition, nil
}

// editNamed edits the timer of a name, if it has the version; 0 is any.
func (s *Resource) editNamed(
	ctx context.Context,
	n store.NewTimer,
	version int32,
) (timer.Timer, error) {
	t, err := s.Store.TimerByName(ctx, n.App, n.Name)
	if err != nil {
		return t, err //nolint:wrapcheck // the store says what it was doing
	}
	if version != 0 && version != t.Version {
		return t, versionConflict(t.Version)
	}
	return s.Writer.ApplyEdit(
		ctx,
		store.Edit{App: n.App, ID: t.ID, IfVersion: version, Definition: n.Definition},
		&t.Definition,
	)
}

// changesStatus reports whether a PUT with a status changes the timer's. A PUT with status active
// does not end a pause, because callers repeat the same PUT.
func changesStatus(t *timer.Timer, want timer.Status) bool {
	return want != "" && t.Status != want &&
		(t.Status != timer.StatusPaused || want != timer.StatusActive)
}

// putStatus sets the status that a body names.
func (s *Resource) putStatus(
	ctx context.Context,
	t timer.Timer,
	want timer.Status,
) (timer.Timer, error) {
	if !changesStatus(&t, want) {
		return t, nil
	}
	return s.setStatus(ctx, &t, store.StatusChange{App: t.App, ID: t.ID, Status: want})
}

// setStatus sets the status of a timer that the same request has edited. In a dry run the edit is
// not there, so what it would have made is added.
func (s *Resource) setStatus(
	ctx context.Context,
	edited *timer.Timer,
	c store.StatusChange,
) (timer.Timer, error) {
	t, err := s.Writer.SetStatus(ctx, c)
	if err != nil || edited.ID == 0 || !store.IsDryRun(ctx) {
		return t, err
	}
	if !reflect.DeepEqual(t.Definition.Schedule, edited.Definition.Schedule) {
		t.NextDueMS = 0 // the instant of a one-shot that is not expanded yet
	}
	t.Definition, t.Calendars = edited.Definition, edited.Calendars
	t.Version, t.VersionMS = edited.Version, edited.VersionMS
	return t, nil
}

type patchTimerInput struct {
	param.TimerParam
	param.DryRunParam
	IfMatchParam

	Body changeBody
}

func (s *Resource) patchTimer(ctx context.Context, in *patchTimerInput) (*timerOutput, error) {
	id, err := param.OwnTimer(ctx, s.Auth, &in.TimerParam)
	if err != nil {
		return nil, err
	}
	b := &in.Body
	edits := b.Schedule != nil || b.Target != nil || b.Targets != nil || b.Mode != "" ||
		b.Retry != nil ||
		b.Misfire != nil ||
		b.Concurrency != nil ||
		b.Priority != "" ||
		b.Labels != nil ||
		b.Metrics != nil
	if !edits && b.Status == "" {
		return nil, timer.Invalid(
			"status",
			"expected status, schedule, target, targets, mode, retry, misfire, concurrency, priority, labels or metrics, found none of them: give what is to be changed",
		)
	}
	if version := in.version(); version != 0 {
		b.IfVersion = version
	}
	change := store.StatusChange{App: in.App, ID: id, Status: timer.Status(b.Status)}
	if !edits {
		change.IfVersion = b.IfVersion
	}
	var t timer.Timer
	if edits {
		if t, err = s.editFrom(ctx, in.App, id, b); err != nil {
			return nil, in.precondition(err)
		}
	}
	if b.Status != "" {
		if t, err = s.setStatus(ctx, &t, change); err != nil {
			return nil, in.precondition(err)
		}
	}
	if in.DryRun {
		out, err := s.dryRun(ctx, &t, false)
		if err != nil {
			return nil, err
		}
		return &timerOutput{Body: out.Body}, nil
	}
	return s.showChanged(ctx, &t)
}

// editFrom applies the fields of a body and keeps the others. It starts again when another edit
// came between, so that no edit is lost, unless the caller named a version.
func (s *Resource) editFrom(
	ctx context.Context,
	app string,
	id timer.ID,
	b *changeBody,
) (timer.Timer, error) {
	for range input.EditTries {
		t, d, err := s.readChanged(ctx, app, id, b)
		if err != nil {
			return t, err
		}
		done, err := s.Writer.ApplyEdit(
			ctx,
			store.Edit{App: app, ID: id, IfVersion: t.Version, Definition: d},
			&t.Definition,
		)
		if timer.CodeOf(err) == timer.CodeConflict && b.IfVersion == 0 {
			continue
		}
		return done, err
	}
	return timer.Timer{}, timer.Unavailable("the timer is edited too often", nil)
}

// readChanged returns a timer, and its definition with the fields of a body applied.
func (s *Resource) readChanged(
	ctx context.Context,
	app string,
	id timer.ID,
	b *changeBody,
) (timer.Timer, timer.Definition, error) {
	t, err := s.Store.Timer(ctx, app, id)
	if err != nil {
		return t, t.Definition, err //nolint:wrapcheck // the store says what it was doing
	}
	if b.IfVersion != 0 && t.Version != b.IfVersion {
		return t, t.Definition, versionConflict(t.Version)
	}
	var r input.BodyReader
	d := s.changed(app, b, t.Definition, &r)
	return t, d, s.Definitions.CheckDefinition(ctx, app, &d, &r)
}

func versionConflict(version int32) error {
	return timer.Conflict(
		ifVersion,
		fmt.Sprintf(
			"expected the version of the timer, which is %d, found another: read the timer again",
			version,
		),
	)
}

type deleteInput struct {
	param.TimerParam
	param.DryRunParam
	IfMatchParam
}

func (s *Resource) deleteTimer(ctx context.Context, in *deleteInput) (*struct{}, error) {
	id, err := param.OwnTimer(ctx, s.Auth, &in.TimerParam)
	if err != nil {
		return nil, err
	}
	_, err = s.Writer.SetStatus(
		ctx,
		store.StatusChange{
			App: in.App, ID: id, Status: timer.StatusDeleted, IfVersion: in.version(),
		},
	)
	return nil, in.precondition(err)
}

type namedInput struct {
	param.AppParam
	param.DryRunParam

	Name string `query:"name" required:"true" minLength:"1" maxLength:"128" doc:"The timer's name."`
}

func (s *Resource) deleteNamed(ctx context.Context, in *namedInput) (*struct{}, error) {
	if err := s.Auth.MayChange(ctx, "query.app", in.App); err != nil {
		return nil, err
	}
	t, err := s.Store.TimerByName(ctx, in.App, in.Name)
	if err != nil {
		return nil, err //nolint:wrapcheck // the store says what it was doing
	}
	_, err = s.Writer.SetStatus(
		ctx,
		store.StatusChange{App: in.App, ID: t.ID, Status: timer.StatusDeleted},
	)
	return nil, err
}
