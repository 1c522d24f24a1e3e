package compose_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/e2e/compose"
	"github.com/carillon-timer/carillon/libs/testenv/document"
)

// TestCommandsOfDocuments runs the commands of documents that need Docker, in a copy of the tree,
// because they write deploy/.env. The project has its own name and ports.
//
//nolint:paralleltest // two builds at once would only be slower
func TestCommandsOfDocuments(t *testing.T) {
	root := onDocker(t)
	dir := t.TempDir()
	const copyTree = `git ls-files -z --cached --others --exclude-standard |
		tar --null --ignore-failed-read -c -T - | tar -x -C "$0"`
	files := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", copyTree, dir)
	files.Dir = root
	said, err := files.CombinedOutput()
	require.NoError(t, err, "%s", said)
	// Otherwise the script that makes the keys compiles everything in the copy.
	build := exec.CommandContext(
		t.Context(), "go", "build", "-o", dir+"/bin/", "./services/cli/cmd/carillon")
	build.Dir = root
	said, err = build.CombinedOutput()
	require.NoError(t, err, "%s", said)
	env := []string{"COMPOSE_PROJECT_NAME=carillon-e2e-documents"}
	var ports []string
	for _, variable := range []string{"CARILLON_PORT", "PROMETHEUS_PORT", "GRAFANA_PORT"} {
		port, err := compose.FreePort(t.Context())
		require.NoError(t, err)
		env, ports = append(env, variable+"="+port), append(ports, port)
	}
	blocks, err := document.Needing(root, "docs/install.md", "docker")
	require.NoError(t, err)
	require.Len(t, blocks, 2, "one begins, one removes everything")
	defer func() {
		ctx := context.WithoutCancel(t.Context())
		_, err := document.Run(ctx, dir, env, blocks[1:])
		require.NoError(t, err)
		volumes := exec.CommandContext(ctx, "docker", "volume", "ls", "--quiet",
			"--filter", "label=com.docker.compose.project=carillon-e2e-documents")
		left, err := volumes.Output()
		require.NoError(t, err)
		require.Empty(t, string(left))
		clean := exec.CommandContext(
			ctx, "docker", "compose", "-f", "deploy/compose.yaml", "down", "--rmi", "local")
		clean.Dir, clean.Env = dir, append(os.Environ(), env...)
		said, err := clean.CombinedOutput()
		require.NoError(t, err, "%s", said)
	}()
	out, err := document.Run(t.Context(), dir, env, blocks[:1],
		"curl -s ", "curl -s --fail-with-body ", "127.0.0.1:8080", "127.0.0.1:"+ports[0])
	require.NoError(t, err)
	require.Regexp(t, `"name": ?"first"`, out)
	require.FileExists(t, filepath.Join(dir, "deploy", ".env"))
}
