package peers

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Report is the state of the time zones, for operators.
type Report struct {
	Version string `json:"version"`
	Source  string `json:"source"` // "embedded", or the path of a file
	// Versions maps the versions of all alive processes to the names of the processes.
	Versions map[string][]string `json:"versions,omitempty"`
	// Replanning means that some timers may still be planned by rules of another version.
	Replanning bool `json:"replanning,omitempty"`
}

// Report returns the state as of the last renewal.
func (w *Watch) Report() Report {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := Report{
		Version:    w.opts.Zones.Version(),
		Source:     w.opts.Zones.Source(),
		Replanning: w.known.Rules > 1,
	}
	hashes := map[string]string{} // by version
	for _, p := range w.known.Processes {
		version := p.Version
		// Two files can claim the same version.
		if had, ok := hashes[version]; ok && had != p.Hash {
			const short = 8
			version += " (" + p.Hash[:min(short, len(p.Hash))] + ")"
		} else {
			hashes[version] = p.Hash
		}
		if r.Versions == nil {
			r.Versions = map[string][]string{}
		}
		r.Versions[version] = append(r.Versions[version], p.Name)
	}
	return r
}

// Check returns an error while processes plan by different versions. It must not decide the
// readiness of a process: during a rolling upgrade there are two versions.
func (w *Watch) Check(context.Context) error {
	r := w.Report()
	if len(r.Versions) < 2 { //nolint:mnd // they differ
		return nil
	}
	parts := make([]string, 0, len(r.Versions))
	for _, version := range slices.Sorted(maps.Keys(r.Versions)) {
		parts = append(parts, version+" ("+strings.Join(r.Versions[version], ", ")+")")
	}
	return fmt.Errorf(
		"expected one version of the time zones in all processes, found %s: run the same release or the same tzdata file everywhere",
		strings.Join(parts, " and "),
	)
}

// logMismatch logs once when processes begin to differ, and once when they no longer do.
func (w *Watch) logMismatch() {
	err := w.Check(context.Background())
	w.mu.Lock()
	was := w.mismatch
	w.mismatch = err != nil
	w.mu.Unlock()
	switch {
	case err != nil && !was:
		w.log.Warn().Err(err).Msg("time zones differ")
	case err == nil && was:
		w.log.Info().
			Str("tzdata", w.opts.Zones.Version()).
			Msg("time zones are the same in all processes")
	}
}
