package chaos

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/carillon-timer/carillon/e2e/receiver"
	"github.com/carillon-timer/carillon/libs/timer"
)

// Result is a scenario's result, as results.json stores it.
type Result struct {
	Scenario   string               `json:"scenario"`
	About      string               `json:"about"`
	Date       string               `json:"date"`
	Commit     string               `json:"commit"`
	Seconds    float64              `json:"seconds"` // length of the load
	Due        int                  `json:"due"`     // fires that must be called
	Called     int                  `json:"called"`
	Delivered  int                  `json:"delivered"`
	Failed     int                  `json:"failed"`
	Skipped    map[timer.Reason]int `json:"skipped"`
	Missing    int                  `json:"missing"`
	Early      int                  `json:"early"`
	Duplicates int                  `json:"duplicates"` // repeated calls without excuse
	// Repeated calls whose executor was killed, frozen or cut off during the first call.
	Excused  int                `json:"excused"`
	Refused  int                `json:"refused"` // failed API calls, each of which was repeated
	Lateness receiver.Quantiles `json:"lateness"`
	Faults   []*Fault           `json:"faults"`
	Broken   []string           `json:"broken,omitempty"` // every broken promise
}

// OK reports whether every promise held.
func (r *Result) OK() bool { return len(r.Broken) == 0 }

// Table formats results as Markdown: a line for each scenario, and a second table of the recovery
// from each fault.
func Table(results []*Result) string {
	var b strings.Builder
	b.WriteString(
		"| scenario | due | delivered | failed | skipped | missing | early | called twice (in flight at the fault) | p50 | p99 | p99.9 | max |\n" +
			"|---|---|---|---|---|---|---|---|---|---|---|---|\n",
	)
	for _, r := range results {
		skipped := 0
		for _, n := range r.Skipped {
			skipped += n
		}
		mark := ""
		if !r.OK() {
			mark = " **broken**"
		}
		q := r.Lateness
		fmt.Fprintf(
			&b,
			"| %s%s | %d | %d | %d | %d | %d | %d | %d (%d) | %s | %s | %s | %s |\n",
			r.About,
			mark,
			r.Due,
			r.Delivered,
			r.Failed,
			skipped,
			r.Missing,
			r.Early,
			r.Duplicates+r.Excused,
			r.Excused,
			short(q.P50),
			short(q.P99),
			short(q.P999),
			short(q.Max),
		)
	}
	b.WriteString(
		"\n| fault | lasted | new fires on time after | target | all late fires called after | target | latest |\n|---|---|---|---|---|---|---|\n",
	)
	for _, r := range results {
		for _, f := range r.Faults {
			lasted := ""
			if f.outageLength() > 0 {
				lasted = seconds(f.outageLength())
			}
			fmt.Fprintf(
				&b,
				"| %s | %s | %s | %s | %s | %s | %s |\n",
				f.Name,
				lasted,
				seconds(f.OnTimeAfter),
				target(f.TargetOnTime, f.OnTimeAfter),
				seconds(f.CaughtUpAfter),
				target(f.TargetCaughtUp, f.CaughtUpAfter),
				seconds(f.MaxLate),
			)
		}
	}
	return b.String()
}

func short(d time.Duration) string {
	if d >= 10*time.Second {
		return fmt.Sprintf("%.0f s", d.Seconds())
	}
	if d >= time.Second {
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	return fmt.Sprintf("%d ms", d.Milliseconds())
}

func seconds(d time.Duration) string {
	if d == 0 {
		return "0"
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}

func target(want, got time.Duration) string {
	switch {
	case want == 0:
		return ""
	case got > want:
		return "**" + seconds(want) + " missed**"
	default:
		return seconds(want)
	}
}

// Load reads stored results. A missing file has none.
func Load(path string) ([]*Result, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading results: %w", err)
	}
	var all []*Result
	if err := json.Unmarshal(b, &all); err != nil {
		return nil, fmt.Errorf("reading results in %s: %w", path, err)
	}
	return all, nil
}

// Save stores results in the order of the scenarios. It keeps the stored results of scenarios that
// did not run.
func Save(path string, fresh []*Result) ([]*Result, error) {
	old, err := Load(path)
	if err != nil {
		return nil, err
	}
	by := make(map[string]*Result)
	for _, r := range append(old, fresh...) {
		by[r.Scenario] = r
	}
	var all []*Result
	for _, s := range append(Scenarios(), ClusterScenarios()...) {
		if r := by[s.Name]; r != nil {
			all = append(all, r)
		}
	}
	b, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("writing results: %w", err)
	}
	//nolint:gosec // for everyone to read
	if err := os.WriteFile(path, append(b, '\n'), 0o644); err != nil {
		return nil, fmt.Errorf("writing results: %w", err)
	}
	return all, nil
}

// Insert replaces the table between the two marker comments of a name in a document.
func Insert(path, name, table string) error {
	begin, end := "<!-- "+name+": begin -->\n", "<!-- "+name+": end -->"
	b, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("writing the table: %w", err)
	}
	head, rest, ok := bytes.Cut(b, []byte(begin))
	_, tail, ok2 := bytes.Cut(rest, []byte(end))
	if !ok || !ok2 {
		return fmt.Errorf("writing the table: %s has no markers for it", path)
	}
	out := string(head) + begin + table + end + string(tail)
	//nolint:gosec // for everyone to read
	if err := os.WriteFile(path, []byte(out), 0o644); err != nil {
		return fmt.Errorf("writing the table: %w", err)
	}
	return nil
}
