package timers

import (
	"context"
	"fmt"
	"time"

	"github.com/carillon-timer/carillon/libs/callback"
	"github.com/carillon-timer/carillon/libs/signing"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/libs/zone"
	"github.com/carillon-timer/carillon/services/api/problem"
	"github.com/carillon-timer/carillon/services/api/v2/param"
)

// answerMargin is how long before the request's own timeout a test call ends, so that its result
// still reaches the caller.
const answerMargin = time.Second

type testCallInput struct {
	param.DryRunParam

	Body newTimerBody
}

type testCallOutput struct{ Body testCallBody }

type testCallBody struct {
	FireID  string         `json:"fire_id" doc:"What the call names as its fire. There is no such fire."`
	Outcome string         `json:"outcome" enum:"delivered,accepted,failed,not_called" doc:"What the answers mean for a fire, by mode where there are several targets."`
	Calls   []testedTarget `json:"calls" nullable:"false" doc:"One for each target that was called, or for which those before left no time, in order of their starts."`
	DryRun  bool           `json:"dry_run,omitempty" doc:"The definition can be called. Nothing was."`
}

type testedTarget struct {
	Target     string            `json:"target,omitempty" doc:"With targets: its name, or its place from 1."`
	Outcome    string            `json:"outcome" enum:"delivered,accepted,failed"`
	StatusCode int32             `json:"status_code,omitempty" doc:"HTTP status, or code of gRPC; absent without an answer, and with OK of gRPC."`
	Failure    string            `json:"failure,omitempty" doc:"The kind of failure, as in the attempts of a fire."`
	Error      string            `json:"error,omitempty" doc:"Why it failed, in one line."`
	Headers    map[string]string `json:"headers,omitempty" doc:"Some headers of an HTTP answer. Cookies are not among them."`
	Answer     string            `json:"answer,omitempty" doc:"The beginning of the answer's body, at most 512 bytes. Secrets of the target are REDACTED."`
	DurationMS int64             `json:"duration_ms" doc:"How long the call took."`
}

// testCall calls the targets of a definition once, as an executor would call them for a fire: the
// same checks of addresses, secrets, signature and headers, except that Carillon-Cause is test. The
// entry of the audit trail is written before. If the process dies between the two, there is an entry
// without a call, and never a call without an entry. Nothing else is stored, and each request calls
// again. Limits of the app, circuit breakers and a freeze do not apply.
func (s *Resource) testCall(ctx context.Context, in *testCallInput) (*testCallOutput, error) {
	b := &in.Body
	if err := s.Auth.MayChange(ctx, "app", b.App); err != nil {
		return nil, err
	}
	stored, known, err := s.testedTimer(ctx, b)
	if err != nil {
		return nil, err
	}
	n, err := s.newTimer(ctx, b, "", stored)
	if err != nil {
		return nil, err
	}
	q, err := s.testRequest(ctx, &n, known)
	if err != nil {
		return nil, err
	}
	out := &testCallOutput{Body: testCallBody{
		FireID: q.Fire.String(), Outcome: "not_called", Calls: []testedTarget{}, DryRun: in.DryRun,
	}}
	if in.DryRun {
		return out, nil
	}
	if !s.Tests.TryAcquire(b.App) {
		return nil, problem.Busy(fmt.Sprintf(
			"too many test calls: an app may make %d in %s, and all apps %d: try again",
			s.Tests.PerApp(), testSlotTime, s.Tests.Most()))
	}
	defer s.Tests.Release(b.App, time.Now())
	e, err := store.AuditTestCalled(known, b.Name, testedTargets(&n.Definition))
	if err == nil {
		err = s.Store.AddAudit(ctx, b.App, e)
	}
	if err != nil {
		return nil, err //nolint:wrapcheck // it says what it was doing
	}
	began := time.Now()
	r := s.Caller.Call(ctx, q)
	took := time.Since(began)
	if wanted := time.Duration(n.Definition.Retry.Timeout); q.Timeout < wanted {
		explainTimeout(&r, wanted, n.Definition.Mode)
	}
	showTestCall(&out.Body, &r, took)
	return out, nil
}

// testedTimer returns the timer of the body's name, and its definition if secrets are taken from
// that. A timer that is not there has the id 0.
func (s *Resource) testedTimer(
	ctx context.Context, b *newTimerBody,
) (stored *timer.Definition, id timer.ID, err error) {
	if s.Caller == nil {
		return nil, 0, problem.Of(problem.Fault{
			Status: 403,
			Msg:    "this deployment makes no test calls (test-calls=0)",
		})
	}
	t, err := s.Store.TimerByName(ctx, b.App, b.Name)
	if timer.CodeOf(err) == timer.CodeNotFound {
		return nil, 0, nil
	}
	return &t.Definition, t.ID, err //nolint:wrapcheck // the store says what it was doing
}

// testRequest returns the attempt that a fire of a definition would make now.
func (s *Resource) testRequest(
	ctx context.Context, n *store.NewTimer, id timer.ID,
) (*callback.Request, error) {
	policy, err := s.Definitions.PolicyOf(ctx, n.App)
	if err != nil {
		return nil, err //nolint:wrapcheck // the store says what it was doing
	}
	signer, signError, err := s.signerOf(ctx, n.App)
	if err != nil {
		return nil, err
	}
	d, now := &n.Definition, s.Now()
	fire := timer.FireID{Timer: id, DueMS: now.UnixMilli(), Series: int64(s.IDs.Next())}
	q := &callback.Request{
		Fire:        fire,
		App:         n.App,
		PlannedMS:   now.UnixMilli(),
		Attempt:     1,
		Start:       now,
		Target:      d.Target,
		Fanout:      d.Fanout,
		NoRetry:     d.Retry.NoRetry,
		Name:        n.Name,
		Labels:      d.Labels,
		Cause:       callback.CauseTest,
		Signer:      signer,
		SignError:   signError,
		Egress:      policy,
		KeepHeaders: true,
		Timeout:     time.Duration(d.Retry.Timeout),
	}
	if at, limited := ctx.Deadline(); limited {
		q.Deadline = at.Add(-answerMargin)
		left := time.Until(q.Deadline).Round(answerMargin / 10)
		q.Timeout = max(min(q.Timeout, left), time.Millisecond)
	}
	s.Tokens.Give(q) // completions find no such fire
	if d.Schedule.Zone != "" {
		if z, err := zone.Load(d.Schedule.Zone); err == nil {
			q.Zone = z.Location()
		}
	}
	return q, nil
}

// signerOf returns the signer of an app, or signError: why its calls cannot be signed.
func (s *Resource) signerOf(
	ctx context.Context, app string,
) (signer *signing.Signer, signError, err error) {
	stored, err := s.Store.SigningKeys(ctx, app)
	if err != nil {
		return nil, nil, err //nolint:wrapcheck // the store says what it was doing
	}
	keys := make([]signing.StoredKey, len(stored))
	for i := range stored {
		keys[i] = signing.StoredKey{Kind: stored[i].Kind, Secret: stored[i].Secret}
	}
	var opener signing.Opener
	if s.Secrets != nil {
		opener = s.Secrets
	}
	if signer, err = signing.SignerOf(app, keys, opener); err != nil {
		return nil, fmt.Errorf("the call cannot be signed: %w", err), nil
	}
	return signer, nil, nil
}

// testedTargets names the targets of a definition without credentials.
func testedTargets(d *timer.Definition) []store.TestedTarget {
	targets := d.Targets
	if !d.Several() {
		targets = []timer.Target{d.Target}
	}
	out := make([]store.TestedTarget, len(targets))
	for i := range targets {
		t := &targets[i]
		out[i] = store.TestedTarget{
			Kind:     t.Kind,
			Endpoint: callback.Endpoint(t),
			Topic:    callback.Topic(t),
		}
	}
	return out
}

// explainTimeout says of calls without an answer that those of a fire may take longer. Of targets
// that are called one after the other, only the first had the whole time of a test call.
func explainTimeout(r *callback.Result, wanted time.Duration, mode timer.Mode) {
	if r.Failure == timer.FailureTimeout {
		r.Error += fmt.Sprintf(", the most that a test call waits; a fire waits %s", wanted)
	}
	for i := range r.Targets {
		if i == 0 || mode == timer.ModeAll {
			explainTimeout(&r.Targets[i].Result, wanted, mode)
		}
	}
}

// showTestCall converts a result.
func showTestCall(b *testCallBody, r *callback.Result, took time.Duration) {
	b.Outcome = outcomeOf(r)
	if len(r.Targets) == 0 {
		b.Calls = append(b.Calls, showTested(r, "", took))
	}
	for i := range r.Targets {
		t := &r.Targets[i]
		b.Calls = append(b.Calls, showTested(&t.Result, t.Name, t.Duration))
	}
}

func showTested(r *callback.Result, name string, took time.Duration) testedTarget {
	return testedTarget{
		Target:     name,
		Outcome:    outcomeOf(r),
		StatusCode: r.StatusCode,
		Failure:    string(r.Failure),
		Error:      r.Error,
		Headers:    r.Headers,
		Answer:     r.Excerpt,
		DurationMS: took.Milliseconds(),
	}
}

func outcomeOf(r *callback.Result) string {
	switch r.Class {
	case callback.Success:
		if r.Failure == timer.FailureNone {
			return "delivered"
		}
	case callback.Accepted:
		return "accepted"
	case callback.Retry, callback.Reject:
	}
	return "failed"
}
