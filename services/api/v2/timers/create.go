package timers

import (
	"context"
	"errors"
	"net/http"
	"net/url"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/api/definition"
	"github.com/carillon-timer/carillon/services/api/input"
	"github.com/carillon-timer/carillon/services/api/v2/param"
)

type createInput struct {
	param.DryRunParam

	Key  string `header:"Idempotency-Key" minLength:"1" maxLength:"255" doc:"Repeating a create under the same key within a day makes no second timer; another request under it is a conflict. It has at most 255 bytes."`
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
	if err := store.CheckIdempotencyKey(in.Key); err != nil {
		return nil, err //nolint:wrapcheck // it names the field
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
	IfID        string `query:"if_id" pattern:"^[0-9]{1,16}$" doc:"Only if the timer of this name has this id; else 412. Another timer may have taken the name, and its versions begin at 1, too."`

	Body newTimerBody
}

// condition combines If-Match with if_id. Both must hold.
func (in *putInput) condition() (condition, error) {
	c, err := in.IfMatchParam.condition(0)
	if err != nil || in.IfID == "" {
		return c, err
	}
	if in.IfNoneMatch != "" {
		return c, timer.Invalid("query.if_id",
			"expected one condition, found If-None-Match, too: leave one of the two out")
	}
	c.given = true
	if c.id, err = timer.ParseID(in.IfID); err != nil {
		c.id = -1 // as an ETag that is no version, it matches none
	}
	return c, nil
}

// putTimer creates a timer or edits the one of its name: see put. Another caller may take or free the name
// between the two. A create that finds a timer edits it, and an edit that finds none creates it,
// until one succeeds. Of two concurrent callers the later one wins completely.
func (s *Resource) putTimer(ctx context.Context, in *putInput) (*createOutput, error) {
	if err := s.Auth.AuthorizeApp(ctx, in.Body.App); err != nil {
		return nil, err
	}
	c, err := in.condition()
	if err != nil {
		return nil, err
	}
	stored, err := s.redactedFrom(ctx, &in.Body)
	if err != nil {
		return nil, err
	}
	n, err := s.newTimer(ctx, &in.Body, "", definitionOf(stored))
	if err != nil {
		return nil, err
	}
	t, created, err := s.putIf(ctx, n, in, stored, &c)
	if err != nil {
		return nil, c.failure(err)
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
	stored *timer.Timer,
	only *condition,
) (t timer.Timer, created bool, err error) {
	status := timer.Status(in.Body.Status)
	switch {
	case in.IfNoneMatch != "":
		c, err := s.Writer.Create(ctx, n)
		if err == nil && c.Existing || store.IsNameTaken(err) {
			return t, false, errExists()
		}
		return c.Timer, true, err
	case stored != nil:
		t, err = s.putRedacted(ctx, &in.Body, n, stored, only)
		return t, false, err
	case only.given:
		t, err = s.putNamed(ctx, n, status, only)
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
		if store.IsNameTaken(err) {
			t, err = s.editNamed(ctx, n, status, &condition{any: true})
		}
		if err == nil {
			t, err = s.putStatus(ctx, t, status)
		}
		if timer.CodeOf(err) == timer.CodeNotFound || isVersionConflict(err) {
			continue // it was deleted or edited in the meantime
		}
		return t, false, err
	}
	return t, false, timer.Unavailable("the timer of the name changes too often", nil)
}

// putNamed gives the timer of a name, if it satisfies the condition, the definition and the status.
func (s *Resource) putNamed(
	ctx context.Context,
	n store.NewTimer,
	status timer.Status,
	only *condition,
) (timer.Timer, error) {
	for range input.EditTries {
		t, err := s.editNamed(ctx, n, status, only)
		if timer.CodeOf(err) == timer.CodeNotFound {
			return t, only.errMissing()
		}
		if err == nil {
			t, err = s.putStatus(ctx, t, status)
		}
		if isVersionConflict(err) && only.any {
			continue
		}
		return t, err
	}
	return timer.Timer{}, timer.Unavailable("the timer is edited too often", nil)
}

// putRedacted gives the timer, from which the REDACTED secrets of a body were taken, the definition
// and the status of the body. It edits the version that was read. If that was edited or deleted in
// the meantime, it takes the secrets of the present one, so that it undoes no change of a secret.
func (s *Resource) putRedacted(
	ctx context.Context,
	b *newTimerBody,
	n store.NewTimer,
	stored *timer.Timer,
	only *condition,
) (timer.Timer, error) {
	status := timer.Status(b.Status)
	for range input.EditTries {
		t, err := s.editRead(ctx, n, status, stored, stored.Version, only)
		if err == nil {
			t, err = s.putStatus(ctx, t, status)
		}
		if err == nil {
			return t, nil
		}
		if !isVersionConflict(err) && timer.CodeOf(err) != timer.CodeNotFound ||
			!only.matches(stored.Version) {
			return t, err
		}
		if stored, err = s.redactedFrom(ctx, b); err != nil {
			return t, err
		}
		if n, err = s.newTimer(ctx, b, "", definitionOf(stored)); err != nil {
			return t, err // also if there is no timer anymore
		}
	}
	return timer.Timer{}, timer.Unavailable("the timer is edited too often", nil)
}

// hasRedacted reports whether a body has REDACTED secrets.
func hasRedacted(b *newTimerBody) bool {
	return definition.HasRedactedSecrets(input.OrZero(b.Target)) ||
		definition.HasRedactedSecrets(b.Targets...)
}

// redactedFrom returns the timer from which a body's REDACTED secrets are taken, or nil where the
// body has none.
func (s *Resource) redactedFrom(ctx context.Context, b *newTimerBody) (*timer.Timer, error) {
	if !hasRedacted(b) {
		return nil, nil //nolint:nilnil // nothing is wanted
	}
	t, err := s.Store.TimerByName(ctx, b.App, b.Name)
	if timer.CodeOf(err) == timer.CodeNotFound {
		return nil, nil //nolint:nilnil // reading the secrets reports that there is none
	}
	if err != nil {
		return nil, err
	}
	return &t, nil
}

// definitionOf returns the definition of a timer, nil where there is none.
func definitionOf(t *timer.Timer) *timer.Definition {
	if t == nil {
		return nil
	}
	return &t.Definition
}

// editNamed edits the timer of a name, if it satisfies the condition. The status inactive takes
// effect with the edit, so that the new definition is not active for a moment.
//
// The timer that was read by its name is edited by its id. So its id need not be checked again where
// it is written: if somebody deletes it and another timer takes the name in between, there is no timer
// of that id, and the other one stays as it is.
func (s *Resource) editNamed(
	ctx context.Context,
	n store.NewTimer,
	status timer.Status,
	only *condition,
) (timer.Timer, error) {
	t, err := s.Store.TimerByName(ctx, n.App, n.Name)
	if err != nil {
		return t, err //nolint:wrapcheck // the store says what it was doing
	}
	version, err := only.version(func() (timer.Timer, error) { return t, nil })
	if err != nil {
		return t, err
	}
	return s.editRead(ctx, n, status, &t, version, only)
}

// editRead edits a timer that was read, if it satisfies the condition and has the version when the
// store writes; 0 is any.
func (s *Resource) editRead(
	ctx context.Context,
	n store.NewTimer,
	status timer.Status,
	t *timer.Timer,
	version int32,
	only *condition,
) (timer.Timer, error) {
	if err := only.ifID(t); err != nil {
		return *t, err
	}
	if !only.matches(t.Version) {
		return *t, versionConflict(t.Version)
	}
	return s.Writer.ApplyEdit(
		ctx,
		store.Edit{
			App: n.App, ID: t.ID, IfVersion: version, Definition: n.Definition,
			Deactivate: status == timer.StatusInactive,
		},
		&t.Definition,
	)
}

// changesStatus reports whether a PUT with a status changes the timer's. A PUT with status active
// does not end a pause, because callers repeat the same PUT.
func changesStatus(t *timer.Timer, want timer.Status) bool {
	return want != "" && t.Status != want &&
		(t.Status != timer.StatusPaused || want != timer.StatusActive)
}

// putStatus sets the status that a body names, if the timer still has the definition of that body.
func (s *Resource) putStatus(
	ctx context.Context,
	t timer.Timer,
	want timer.Status,
) (timer.Timer, error) {
	if !changesStatus(&t, want) {
		return t, nil
	}
	return s.setStatus(ctx, &t, store.StatusChange{
		App: t.App, ID: t.ID, Status: want, IfVersion: versionAfterEdit(ctx, &t),
	})
}

// versionAfterEdit returns the version that a timer must have for a change of status which belongs to
// an edit: else it would activate the definition that somebody else has given it meanwhile. In a dry
// run the edit is not there.
func versionAfterEdit(ctx context.Context, edited *timer.Timer) int32 {
	if store.IsDryRun(ctx) {
		return 0
	}
	return edited.Version
}
