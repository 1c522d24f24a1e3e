package importer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/rs/zerolog"

	"github.com/carillon-timer/carillon/libs/callback"
	"github.com/carillon-timer/carillon/libs/schedule"
	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/api/definition"
	"github.com/carillon-timer/carillon/services/api/input"
	"github.com/carillon-timer/carillon/services/api/problem"
)

// definitionBody are the fields of a timer that the importer sets, as the API reads them.
type definitionBody struct {
	App         string                      `json:"app"`
	Name        string                      `json:"name"`
	Status      string                      `json:"status"`
	Schedule    definition.ScheduleBody     `json:"schedule"`
	Target      definition.TargetBody       `json:"target"`
	Retry       *definition.RetryBody       `json:"retry"`
	Misfire     *definition.MisfireBody     `json:"misfire"`
	Concurrency *definition.ConcurrencyBody `json:"concurrency"`
	Labels      map[string]string           `json:"labels"`
}

// check returns why the API would refuse the definition, a text for each field. It is the API's own
// check, less what depends on the deployment: which addresses and headers it allows.
func (e *entry) check() ([]string, error) {
	data, err := json.Marshal(e.body)
	if err != nil {
		return nil, fmt.Errorf("encoding the definition: %w", err)
	}
	var b definitionBody
	if err := json.Unmarshal(data, &b); err != nil {
		return nil, fmt.Errorf("reading the definition: %w", err)
	}
	b.Target.Kind = definition.CallableKind(timer.KindHTTP) // the default
	// A deployment needs encryption keys to keep a user and a password of a URL.
	b.Target.URL, _, _ = callback.Userinfo(b.Target.URL)
	c := definition.Reader{
		Store: emptyStore{}, Problems: problem.NewReporter(zerolog.Nop()), Kinds: callback.Kinds(),
	}
	var r input.BodyReader
	d := timer.Definition{
		Schedule:    c.ReadSchedule(&b.Schedule, &r),
		Retry:       definition.ReadRetry(b.Retry, &r),
		Misfire:     definition.ReadMisfire(b.Misfire, &r),
		Concurrency: definition.ReadConcurrency(b.Concurrency),
		Labels:      b.Labels,
	}
	d.Target, d.Fanout = c.ReadTargets(b.App, &b.Target, nil, "", nil, &r)
	r.Add(input.CheckNames(b.App, b.Name)...)
	err = c.CheckDefinition(context.Background(), b.App, b.Name, &d, &r)
	refused, ok := errors.AsType[*huma.ErrorModel](err)
	if !ok {
		if err == nil {
			err = e.stopPassed(&d.Schedule)
		}
		return nil, err //nolint:wrapcheck // the check names the field
	}
	var why []string
	for _, bad := range refused.Errors {
		field := strings.TrimPrefix(bad.Location, "body.")
		text := "it cannot be carried over: "
		if strings.HasPrefix(field, "schedule.") {
			text = "the schedule cannot be carried over: "
		}
		why = append(why, text+field+": "+bad.Message)
	}
	return why, nil
}

// stopPassed makes the timer inactive if its schedule is not due again. An active one whose only
// instant has passed would be called at once, maybe years late. s has passed the check of the API.
func (e *entry) stopPassed(s *timer.Schedule) error {
	now := e.opts.Now
	if s.Kind == timer.KindAt {
		if s.At.Before(now) {
			e.stop(
				"schedule.at",
				s.At.UTC().
					Format(time.RFC3339)+
					" has passed: an active timer would be called at once",
			)
		}
		return nil
	}
	p, err := schedule.Parse(*s, schedule.Inputs{})
	if err != nil {
		return err //nolint:wrapcheck // it names the field
	}
	for _, w := range p.Warnings(now.UnixMilli()-1, now.UnixMilli()) {
		e.stop(w.Field, w.Message)
	}
	return nil
}

// stop makes the timer inactive, and notes why and which field to correct.
func (e *entry) stop(field, why string) {
	e.body["status"] = "inactive"
	e.notef("%s; it is inactive: leave it out, or correct %s and set status: active", why, field)
}

// emptyStore is a store without apps and calendars. The importer names no calendars.
type emptyStore struct{}

func (emptyStore) App(_ context.Context, name string) (store.App, error) {
	return store.App{}, store.NoSuchApp(name)
}

func (emptyStore) Calendar(_ context.Context, _, name string) (store.CalendarVersion, error) {
	return store.CalendarVersion{}, timer.NotFound("calendar", name)
}
