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

// docker runs a command of docker and returns what it said on its standard output; the error has
// the rest.
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

// inspect reads what docker knows of an image or a container.
func inspect(ctx context.Context, kind, name string, into any) error {
	out, err := docker(ctx, nil, kind, "inspect", "--format", "{{json .}}", name)
	if err != nil {
		return err
	}
	if err := json.Unmarshal([]byte(out), into); err != nil {
		return fmt.Errorf("reading what docker knows of %s: %w", name, err)
	}
	return nil
}

// lines returns those of an output that are not empty.
func lines(out string) []string { return strings.Fields(out) }
