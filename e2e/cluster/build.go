package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// raceEnv builds the programs with the race detector. A data race ends the program, and its
// scenario fails.
const raceEnv = "CARILLON_E2E_RACE"

// Build compiles the programs of this workspace into dir.
func Build(ctx context.Context, dir string) error {
	root, err := Root()
	if err != nil {
		return err
	}
	return BuildAt(ctx, root, dir)
}

// BuildAt compiles the programs of the workspace in root into dir.
func BuildAt(ctx context.Context, root, dir string) error {
	args := []string{"build", "-o", dir + string(filepath.Separator)}
	if os.Getenv(raceEnv) != "" {
		args = append(args, "-race")
	}
	args = append(args, "./services/cli/cmd/carillon")
	for _, r := range Roles() {
		args = append(args, fmt.Sprintf("./services/%s/cmd/carillon-%s", r, r))
	}
	cmd := exec.CommandContext(ctx, "go", args...) //nolint:gosec // the arguments are ours
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building the programs: %w\n%s", err, out)
	}
	return nil
}

// Root returns the directory of go.work, above the working directory.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("finding the workspace: %w", err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.work")); err == nil {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", errors.New("finding the workspace: no go.work above the working directory")
		}
		dir = up
	}
}
