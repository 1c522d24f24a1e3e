package importer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/rs/zerolog"

	"github.com/carillon-timer/carillon/libs/callback"
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
	err = c.CheckDefinition(context.Background(), b.App, &d, &r)
	refused, ok := errors.AsType[*huma.ErrorModel](err)
	if !ok {
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

// emptyStore is a store without apps and calendars. The importer names no calendars.
type emptyStore struct{}

func (emptyStore) App(_ context.Context, name string) (store.App, error) {
	return store.App{}, store.NoSuchApp(name)
}

func (emptyStore) Calendar(_ context.Context, _, name string) (store.CalendarVersion, error) {
	return store.CalendarVersion{}, timer.NotFound("calendar", name)
}
