package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/carillon-timer/carillon/libs/config"
	"github.com/carillon-timer/carillon/libs/process"
)

// redriveCommand is one run of `carillon topics redrive`, and its settings.
type redriveCommand struct {
	api, app, timer, from, to, failure string
	fires                              []string
	again, yes                         bool
	limit                              int
	patience                           time.Duration
	credentials                        credentials

	out    io.Writer
	client *http.Client
}

// allFires is the default of -fires, and selects no fires by id.
const allFires = "all"

// Register registers the settings.
func (r *redriveCommand) Register(s *config.Set) {
	s.String(&r.api, "api", "http://127.0.0.1:8080", "address of the API")
	r.credentials.register(s)
	s.String(&r.app, "app", "", "the app whose failed fires are redriven")
	s.String(&r.timer, "timer", "", "only this timer's")
	s.List(&r.fires, "fires", allFires, "only these, by their ids, separated by commas")
	s.String(
		&r.from,
		"from",
		"",
		"only fires due at this instant or later (2026-01-31T12:00:00Z)",
	)
	s.String(&r.to, "to", "", "only fires due before this instant")
	s.String(
		&r.failure,
		"failure",
		"",
		"only fires with this failure: timeout, connect, status and so on",
	)
	s.Bool(&r.again, "again", false, "also fires that were redriven before")
	s.Int(&r.limit, "limit", 0, "maximum number of fires; 0: all")
	s.Bool(&r.yes, "yes", false, "redrive; without it, only print what would be redriven")
	s.Duration(&r.patience, "patience", 10*time.Minute, "time limit for everything")
}

// Validate checks the settings.
func (r *redriveCommand) Validate() error {
	if r.app == "" {
		return errors.New("app: missing (flag -app)")
	}
	if u, err := url.Parse(r.api); err != nil || u.Host == "" {
		return fmt.Errorf("api: %q is not http://host:port", r.api)
	}
	if len(r.fires) == 0 { // for example a script's empty variable
		return errors.New("fires: lists none; leave it out to select by the other flags")
	}
	if r.limit < 0 {
		return errors.New("limit: is negative")
	}
	return nil
}

// redrive creates failed fires again through the API. The API decides which fires, and acknowledges
// their dead letters.
func redrive(ctx context.Context, args []string, env process.Env, stdout io.Writer) error {
	// The API answers within its own timeout.
	r := &redriveCommand{out: stdout, client: &http.Client{Timeout: tryCall * 3}}
	defer r.client.CloseIdleConnections()
	if err := config.NewSet("carillon topics redrive", r).
		Load(args, noEnvironment, stdout); err != nil {
		return err
	}
	if err := r.credentials.read(env); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, r.patience)
	defer cancel()
	total := int64(0)
	for first := true; ; first = false {
		got, err := r.call(ctx, total)
		if err != nil {
			return err
		}
		total += got.Count
		if first {
			for _, f := range got.Sample {
				fmt.Fprintf(
					r.out,
					"%s  %s  %s  %s\n",
					f.ID,
					f.FinishedAt,
					printable(f.Reason),
					printable(f.Failure),
				)
			}
		}
		switch {
		case got.DryRun && got.More:
			fmt.Fprintf(r.out, "more than %d would be redriven: add -yes to do it\n", total)
			return nil
		case got.DryRun:
			fmt.Fprintf(r.out, "%d would be redriven: add -yes to do it\n", total)
			return nil
		case !got.More || got.Count == 0 || r.limit > 0 && total >= int64(r.limit):
			fmt.Fprintf(r.out, "%d redriven\n", total)
			return nil
		case r.again:
			// The next call would start with the fires that this one created.
			fmt.Fprintf(r.out, "%d redriven\n", total)
			return errors.New(
				"there are more, and with -again they cannot be distinguished from those just redriven: continue with -from and -to, -timer or -failure",
			)
		}
		fmt.Fprintf(r.out, "%d redriven, and there are more\n", total)
	}
}

// redriven is the API's answer.
type redriven struct {
	DryRun bool  `json:"dry_run"`
	Count  int64 `json:"count"`
	More   bool  `json:"more"`
	Sample []struct {
		ID         string `json:"id"`
		FinishedAt string `json:"finished_at"`
		Reason     string `json:"reason"`
		Failure    string `json:"failure"`
	} `json:"sample"`
}

func (r *redriveCommand) call(ctx context.Context, done int64) (out redriven, err error) {
	ask := map[string]any{"dry_run": !r.yes, "again": r.again}
	for name, v := range map[string]string{"timer": r.timer, "from": r.from, "to": r.to, "failure": r.failure} {
		if v != "" {
			ask[name] = v
		}
	}
	if !slices.Equal(r.fires, []string{allFires}) {
		ask["fires"] = r.fires
	}
	if r.limit > 0 {
		ask["limit"] = min(int64(r.limit)-done, 10_000)
	}
	body, err := json.Marshal(ask)
	if err != nil {
		return out, fmt.Errorf("encoding a request: %w", err)
	}
	address := strings.TrimSuffix(
		r.api,
		"/",
	) + "/api/v2/apps/" + url.PathEscape(
		r.app,
	) + "/redrives"
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return out, fmt.Errorf("making a request: %w", err)
	}
	q.Header.Set("Content-Type", "application/json")
	r.credentials.authorize(q.Header)
	resp, err := r.client.Do(q)
	if err != nil {
		return out, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, tryMaxAnswer))
	switch {
	case err != nil:
		return out, fmt.Errorf("reading the answer: %w", err)
	case resp.StatusCode != http.StatusOK:
		return out, r.credentials.responseError(resp, data, r.app)
	}
	if err := json.Unmarshal(data, &out); err != nil {
		return out, fmt.Errorf("reading the answer: %w", err)
	}
	return out, nil
}
