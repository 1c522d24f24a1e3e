package compose

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// docker runs a docker command and returns its standard output. The error includes the standard
// error.
func docker(ctx context.Context, env []string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "docker", args...) //nolint:gosec // arguments of our own
	cmd.Env = append(os.Environ(), env...)
	var out, diagnosis bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &diagnosis
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf(
			"docker %s: %w: %s",
			strings.Join(args, " "),
			err,
			tail(diagnosis.String()),
		)
	}
	return out.String(), nil
}

const output = 4000 // bytes of a long diagnosis

func tail(s string) string { return s[max(0, len(s)-output):] }

// inspect reads docker's data about an image or a container.
func inspect(ctx context.Context, kind, name string, into any) error {
	out, err := docker(ctx, nil, kind, "inspect", "--format", "{{json .}}", name)
	if err != nil {
		return err
	}
	if err := json.Unmarshal([]byte(out), into); err != nil {
		return fmt.Errorf("inspecting %s: %w", name, err)
	}
	return nil
}

// lines splits an output into words, such as one id per line.
func lines(out string) []string { return strings.Fields(out) }
