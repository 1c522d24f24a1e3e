package jobs

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/carillon-timer/carillon/libs/store"
	"github.com/carillon-timer/carillon/libs/timer"
	"github.com/carillon-timer/carillon/services/api/v2/param"
)

type deleteInput struct {
	param.PathAppParam
	param.DryRunParam

	Confirm string `query:"confirm" maxLength:"64" doc:"The app's name once more; else 422."`
}

// deleteApp creates a job that deletes the app. The store freezes the app and marks it in the same
// transaction: from then on it takes no timer. A repetition returns the job that is running.
func (s *Resource) deleteApp(ctx context.Context, in *deleteInput) (*jobOutput, error) {
	if err := s.Auth.MayChange(ctx, "path.app", in.App); err != nil {
		return nil, err
	}
	if in.Confirm != in.App {
		return nil, timer.Invalid("query.confirm", fmt.Sprintf(
			"expected the name of the app to delete, %q, found %q: give confirm=%s",
			in.App, in.Confirm, in.App,
		))
	}
	r := store.JobRequest{Filter: store.Filter{App: in.App}}
	j := store.Job{App: in.App, Action: store.JobDeleteApp}
	var err error
	if j.Request, err = json.Marshal(r); err != nil {
		return nil, fmt.Errorf("encoding the job: %w", err)
	}
	out, err := s.start(ctx, &j, r.Filter, "")
	if err == nil && in.DryRun {
		out.Body.ID, out.Body.Status = "", ""
		out.Body.CreatedAt, out.Body.UpdatedAt = "", ""
	}
	return out, err
}
