package store

import (
	"encoding/json"
	"fmt"

	"github.com/carillon-timer/carillon/libs/timer"
)

// auditJSON is the JSON of what an entry has of a resource.
func auditJSON(v any) ([]byte, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encoding an entry of the audit trail: %w", err)
	}
	return text, nil
}

// timerAuditJSON has the texts of statuses without details, which are those of most entries.
var timerAuditJSON = map[timer.Status][]byte{
	timer.StatusActive:   []byte(`{"status":"active"}`),
	timer.StatusInactive: []byte(`{"status":"inactive"}`),
}

func auditOfTimer(t *timer.Timer) ([]byte, error) {
	if text, ok := timerAuditJSON[t.Status]; ok {
		return text, nil
	}
	return auditJSON(TimerAudit{t.Status, t.PauseReason, t.PausedUntilMS})
}

// AuditTimerCreated is the entry of a new timer.
func AuditTimerCreated(t *timer.Timer) (AuditEntry, error) {
	after, err := auditOfTimer(t)
	return AuditEntry{
		Action: AuditCreate, Kind: AuditTimer,
		Resource: t.ID.String(), Name: t.Name, AfterVersion: t.Version, After: after,
	}, err
}

// AuditTimerEdited is the entry of an edit from a version.
func AuditTimerEdited(t *timer.Timer, version int32) AuditEntry {
	return AuditEntry{
		Action: AuditUpdate, Kind: AuditTimer, Resource: t.ID.String(), Name: t.Name,
		BeforeVersion: version, AfterVersion: t.Version,
	}
}

// AuditStatusSet is the entry of a change of status.
func AuditStatusSet(was, is *timer.Timer) (e AuditEntry, err error) {
	e = AuditEntry{
		Kind: AuditTimer, Resource: is.ID.String(), Name: is.Name,
		BeforeVersion: was.Version, AfterVersion: is.Version,
	}
	if e.Before, err = auditOfTimer(was); err != nil {
		return e, err
	}
	switch is.Status {
	case timer.StatusActive:
		e.Action = AuditActivate
		if was.Status == timer.StatusPaused {
			e.Action = AuditResume
		}
	case timer.StatusInactive:
		e.Action = AuditDeactivate
	case timer.StatusPaused:
		e.Action = AuditPause
	case timer.StatusDeleted:
		e.Action, e.AfterVersion = AuditDelete, 0
		return e, nil
	}
	e.After, err = auditOfTimer(is)
	return e, err
}

// AuditSettingsPut is the entry of new settings, which have their JSON already.
func AuditSettingsPut(app string, before, after []byte) AuditEntry {
	return AuditEntry{
		Action: AuditUpdate, Kind: AuditSettings, Resource: app, Before: before, After: after,
	}
}

// AuditCalendarPut is the entry of a calendar, by its JSON before and after; empty: none.
func AuditCalendarPut(name string, before, after []byte) AuditEntry {
	e := AuditEntry{
		Action: AuditUpdate, Kind: AuditCalendar, Resource: name, Before: before, After: after,
	}
	switch {
	case len(before) == 0:
		e.Action = AuditCreate
	case len(after) == 0:
		e.Action = AuditDelete
	}
	return e
}

// AuditAppDeleted is the entry of an app whose deletion is done.
func AuditAppDeleted(app string) AuditEntry {
	return AuditEntry{Action: AuditDelete, Kind: AuditApp, Resource: app}
}

// AuditFreezeSet is the entry of a freeze, its end, or a change of its reason.
func AuditFreezeSet(app string, was, is AppAudit) (e AuditEntry, err error) {
	e = AuditEntry{Action: AuditUnfreeze, Kind: AuditApp, Resource: app}
	if is.Frozen {
		e.Action = AuditFreeze
	}
	if e.Before, err = auditJSON(was); err != nil {
		return e, err
	}
	e.After, err = auditJSON(is)
	return e, err
}

// audited is an entry about a resource whose content is before and after, nil: there was none.
func audited(
	action AuditAction, kind AuditKind, resource string, before, after any,
) (e AuditEntry, err error) {
	e = AuditEntry{Action: action, Kind: kind, Resource: resource}
	if before != nil {
		if e.Before, err = auditJSON(before); err != nil {
			return e, err
		}
	}
	if after != nil {
		e.After, err = auditJSON(after)
	}
	return e, err
}

// AuditKeyAdded is the entry of a new API key.
func AuditKeyAdded(k *APIKey) (AuditEntry, error) {
	return audited(AuditCreate, AuditAPIKey, k.ID, nil, APIKeyAudit{k.Name, k.Scope})
}

// AuditKeyRevoked is the entry of a key that is revoked.
func AuditKeyRevoked(k *APIKey) (AuditEntry, error) {
	return audited(AuditDelete, AuditAPIKey, k.ID, APIKeyAudit{k.Name, k.Scope}, nil)
}

// AuditSigningKeyAdded is the entry of a new signing key.
func AuditSigningKeyAdded(k *SigningKey) (AuditEntry, error) {
	return audited(
		AuditCreate, AuditSigningKey, k.ID.String(), nil, SigningKeyAudit{k.Kind, k.Public},
	)
}

// AuditSigningKeyRetired is the entry of a signing key that is retired.
func AuditSigningKeyRetired(k *SigningKey) (AuditEntry, error) {
	return audited(
		AuditDelete, AuditSigningKey, k.ID.String(), SigningKeyAudit{k.Kind, k.Public}, nil,
	)
}

// AuditSignInsEnded is the entry of a person whose sessions that began before an instant are ended.
func AuditSignInsEnded(issuer, subject string, beforeMS int64) (AuditEntry, error) {
	return audited(AuditEndSignIns, AuditPerson, subject, nil, PersonAudit{issuer, beforeMS})
}

// AuditFiresAdded is the entry of fires that were added to a timer.
func AuditFiresAdded(t *timer.Timer, fires []timer.Fire) (AuditEntry, error) {
	e, err := audited(AuditRun, AuditTimer, t.ID.String(), nil, AuditRunDetails{
		Fires: len(fires), DueMS: fires[0].DueMS, Series: timer.ID(fires[0].Series),
	})
	e.Name, e.BeforeVersion, e.AfterVersion = t.Name, t.Version, t.Version
	return e, err
}

// AuditTestCalled is the entry of a test call of a definition. id is that of its timer, 0: it has
// none yet.
func AuditTestCalled(id timer.ID, name string, targets []TestedTarget) (AuditEntry, error) {
	resource := ""
	if id != 0 {
		resource = id.String()
	}
	e, err := audited(AuditTest, AuditTimer, resource, nil, TestCallAudit{targets})
	e.Name = name
	return e, err
}

// AuditFireCompleted is the entry of a completion that counted.
func AuditFireCompleted(c *Completion) (AuditEntry, error) {
	status := timer.Delivered
	if c.Failed != nil {
		status = timer.Failed
	}
	e, err := audited(
		AuditComplete, AuditFire, c.FireID.String(), nil, CompletionAudit{status, c.Attempt},
	)
	e.Name = c.Name
	return e, err
}

// AuditBackfillStarted is the entry of a new backfill.
func AuditBackfillStarted(b *Backfill) (AuditEntry, error) {
	return audited(AuditCreate, AuditBackfill, b.ID.String(), nil, b.audit(b.Status))
}

// AuditBackfillCancelled is the entry of a backfill that is cancelled.
func AuditBackfillCancelled(b *Backfill) (AuditEntry, error) {
	return audited(
		AuditCancel, AuditBackfill, b.ID.String(), b.audit(b.Status), b.audit(BackfillCancelled),
	)
}

func (b *Backfill) audit(status BackfillStatus) BackfillAudit {
	return BackfillAudit{b.Timer, b.FromMS, b.ToMS, status}
}

// AuditRedriven is the entry of a page of a redrive.
func AuditRedriven(q *DeadLetterQuery, outcomes int) (AuditEntry, error) {
	return audited(
		AuditCreate, AuditRedrive, q.Series.String(), nil, RedriveAudit{q.Timer, outcomes},
	)
}

// AuditJobStarted is the entry of a new job.
func AuditJobStarted(j *Job) (AuditEntry, error) {
	return audited(AuditCreate, AuditJob, j.ID.String(), nil, j.audit(JobRunning))
}

// AuditJobCancelled is the entry of a job that is cancelled.
func AuditJobCancelled(j *Job) (AuditEntry, error) {
	return audited(
		AuditCancel, AuditJob, j.ID.String(), j.audit(JobRunning), j.audit(JobCancelled),
	)
}

func (j *Job) audit(status JobStatus) JobAudit {
	a := JobAudit{Action: j.Action, Status: status}
	if json.Valid(j.Request) {
		a.Request = j.Request
	}
	return a
}
