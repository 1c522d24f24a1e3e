package audit

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/api/input"
	"github.com/carillon-timer/carillon/services/api/v2/calendars"
	"github.com/carillon-timer/carillon/services/api/v2/jobs"
	"github.com/carillon-timer/carillon/services/api/v2/timers"
)

// AuditActorBody is who made a change.
type AuditActorBody struct {
	Kind    string `json:"kind" enum:"key,key_file,gateway,person,token,anonymous,system" doc:"How the actor is known."`
	ID      string `json:"id,omitempty" doc:"Of a key: its public id. Of a key file or a gateway: the app that it names. Of a person: the id at the identity provider."`
	Name    string `json:"name,omitempty" doc:"For people: of a key, its name when the change was made."`
	Address string `json:"address,omitempty" doc:"Of the client, as the API saw it: behind a proxy, that of the proxy."`
	Job     string `json:"job,omitempty" doc:"The job that carried out the change. The actor is the one who started it."`
}

// AuditEntryBody is one change of one resource.
type AuditEntryBody struct {
	ID        string         `json:"id" doc:"It grows with every change of the deployment." example:"1234"`
	At        string         `json:"at" format:"date-time"`
	Actor     AuditActorBody `json:"actor"`
	RequestID string         `json:"request_id,omitempty" doc:"X-Request-ID of the request, and of its answer."`
	Action    string         `json:"action" enum:"create,update,delete,activate,deactivate,pause,resume,run,freeze,unfreeze,cancel,complete,test,end_sessions"`
	Kind      string         `json:"kind" enum:"timer,app,settings,calendar,api_key,signing_key,backfill,redrive,job,fire,person" doc:"Of the resource."`
	Resource  string         `json:"resource" doc:"Its id, or the name of an app or calendar. Of a person: the id at the identity provider."`
	Name      string         `json:"name,omitempty" doc:"Of a timer."`
	Before    map[string]any `json:"before,omitempty" doc:"What it was; absent where there was nothing. Of a timer: its status, version and, where that has changed, its definition. No secrets: they are REDACTED."`
	After     map[string]any `json:"after,omitempty" doc:"What it is, in the same form; absent where it is gone."`
}

// PageBytes is the size at which a page ends. It exceeds that by showAtOnce entries at the most.
const PageBytes = 4 << 20

const showAtOnce = 10

// showPage converts entries until the page has PageBytes. Definitions may have 256 KiB each, so a
// page of many would take the memory that all callers share.
func (s *Resource) showPage(
	ctx context.Context, entries []store.AuditEntry,
) ([]AuditEntryBody, error) {
	items, size := []AuditEntryBody{}, 0
	for some := range slices.Chunk(entries, showAtOnce) {
		shown, err := s.show(ctx, some)
		if err != nil {
			return nil, err
		}
		text, err := json.Marshal(shown)
		if err != nil {
			return nil, fmt.Errorf("encoding the audit trail: %w", err)
		}
		items = append(items, shown...)
		if size += len(text); size >= PageBytes {
			break
		}
	}
	return items, nil
}

// show converts entries. It reads the definitions of all of them at once.
func (s *Resource) show(ctx context.Context, entries []store.AuditEntry) ([]AuditEntryBody, error) {
	var keys []store.VersionKey
	for i := range entries {
		for _, k := range shownVersions(&entries[i]) {
			if k.Version != 0 {
				keys = append(keys, k)
			}
		}
	}
	definitions, err := s.Store.Definitions(ctx, keys)
	if err != nil {
		return nil, fmt.Errorf("reading definitions: %w", err)
	}
	items := make([]AuditEntryBody, len(entries))
	for i := range entries {
		if items[i], err = showEntry(&entries[i], definitions); err != nil {
			return nil, err
		}
	}
	return items, nil
}

// shownVersions returns the versions before and after of a timer whose definition has changed.
func shownVersions(e *store.AuditEntry) (keys [2]store.VersionKey) {
	id, err := timer.ParseID(e.Resource)
	if e.Kind != store.AuditTimer || err != nil {
		return keys
	}
	switch e.Action { //nolint:exhaustive // the others keep the definition
	case store.AuditCreate, store.AuditUpdate, store.AuditDelete:
		for i, version := range []int32{e.BeforeVersion, e.AfterVersion} {
			keys[i] = store.VersionKey{Timer: id, Version: version}
		}
	}
	return keys
}

func showEntry(
	e *store.AuditEntry,
	definitions map[store.VersionKey]*timer.Definition,
) (b AuditEntryBody, err error) {
	b = AuditEntryBody{
		ID: strconv.FormatInt(e.Seq, 10), At: input.Instant(e.AtMS),
		Actor: AuditActorBody{
			Kind: string(e.By.Kind), ID: e.By.ID, Name: e.By.Name, Address: e.By.Address,
		},
		RequestID: e.By.Request,
		Action:    string(e.Action), Kind: string(e.Kind), Resource: e.Resource, Name: e.Name,
	}
	if e.By.Job != 0 {
		b.Actor.Job = e.By.Job.String()
	}
	if b.Before, err = showState(e.Kind, e.Action, e.Before); err != nil {
		return b, err
	}
	if b.After, err = showState(e.Kind, e.Action, e.After); err != nil {
		return b, err
	}
	if e.Kind != store.AuditTimer {
		return b, nil
	}
	keys := shownVersions(e)
	if b.Before, err = withVersion(b.Before, e.BeforeVersion, keys[0], definitions); err != nil {
		return b, err
	}
	b.After, err = withVersion(b.After, e.AfterVersion, keys[1], definitions)
	return b, err
}

// withVersion adds its version and definition to what a timer was or is.
func withVersion(
	state map[string]any,
	version int32,
	key store.VersionKey,
	definitions map[store.VersionKey]*timer.Definition,
) (map[string]any, error) {
	if version == 0 {
		return state, nil
	}
	if state == nil {
		state = map[string]any{}
	}
	state["version"] = version
	d, found := definitions[key]
	if !found {
		return state, nil
	}
	shown, err := timers.ShowDefinition(d)
	if err != nil {
		return nil, err //nolint:wrapcheck // it says what it was doing
	}
	state["definition"] = shown
	return state, nil
}

// showState converts what an entry has of a resource to the form in which the API shows that.
func showState(
	kind store.AuditKind,
	action store.AuditAction,
	text []byte,
) (map[string]any, error) {
	if len(text) == 0 {
		return nil, nil //nolint:nilnil // there was nothing
	}
	shown, err := stateBody(kind, action, text)
	if err != nil {
		return nil, fmt.Errorf("reading the audit trail: %w", err)
	}
	if text, err = json.Marshal(shown); err != nil {
		return nil, fmt.Errorf("encoding the audit trail: %w", err)
	}
	var state map[string]any
	if err := json.Unmarshal(text, &state); err != nil {
		return nil, fmt.Errorf("encoding the audit trail: %w", err)
	}
	return state, nil
}

type timerState struct {
	Status string `json:"status"`
	Reason string `json:"reason,omitempty"`
	Until  string `json:"until,omitempty"`
}

type runState struct {
	Fires  int    `json:"fires"`
	Due    string `json:"due"`
	Series string `json:"series"`
}

type backfillState struct {
	Timer  string `json:"timer"`
	From   string `json:"from"`
	To     string `json:"to"`
	Status string `json:"status"`
}

type personState struct {
	Issuer      string `json:"issuer"`
	EndedBefore string `json:"ended_before"`
}

type redriveState struct {
	Timer string `json:"timer,omitempty"`
	Fires int    `json:"fires"`
}

// stateBody decodes what an entry has. What a later release added is shown as it is.
func stateBody(kind store.AuditKind, action store.AuditAction, text []byte) (any, error) {
	switch kind { //nolint:exhaustive // the others are stored as they are shown
	case store.AuditTimer:
		if action == store.AuditRun {
			v, err := decode[store.AuditRunDetails](text)
			return runState{v.Fires, input.Instant(v.DueMS), v.Series.String()}, err
		}
		if action == store.AuditTest {
			return decode[store.TestCallAudit](text)
		}
		v, err := decode[store.TimerAudit](text)
		return timerState{string(v.Status), v.Reason, input.Instant(v.UntilMS)}, err
	case store.AuditCalendar:
		v, err := decode[timer.Calendar](text)
		return calendars.Show("", &store.CalendarVersion{Calendar: v}).CalendarBody, err
	case store.AuditSettings:
		// A limit that is set or removed is a change, so none is shown as 0, as in the settings.
		v, err := decode[map[string]any](text)
		shown := map[string]any{"rate": 0, "burst": 0, "concurrent": 0, "allow": []string{}}
		maps.Copy(shown, v)
		return shown, err
	case store.AuditBackfill:
		v, err := decode[store.BackfillAudit](text)
		return backfillState{
			v.Timer.String(), input.Due(v.FromMS), input.Due(v.ToMS), string(v.Status),
		}, err
	case store.AuditRedrive:
		v, err := decode[store.RedriveAudit](text)
		out := redriveState{Fires: v.Outcomes}
		if v.Timer != 0 {
			out.Timer = v.Timer.String()
		}
		return out, err
	case store.AuditPerson:
		v, err := decode[store.PersonAudit](text)
		return personState{v.Issuer, input.Instant(v.EndedBeforeMS)}, err
	case store.AuditJob:
		v, err := decode[store.JobAudit](text)
		return jobs.ShowRequest(&store.Job{
			Action: v.Action, Status: v.Status, Request: v.Request,
		}), err
	}
	return decode[map[string]any](text)
}

func decode[T any](text []byte) (v T, err error) {
	err = json.Unmarshal(text, &v)
	return v, err //nolint:wrapcheck // the caller says what was read
}
