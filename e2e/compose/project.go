package compose

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Project is a run of deploy/compose.yaml with its own name, ports and keys, so that it does not
// disturb another one on the engine.
type Project struct {
	name string
	args []string // before each compose command
	env  []string

	API, Prometheus, Grafana string // addresses on this machine
	Key                      string // admin key
}

// receiving adds the endpoint that timers call. It prints each second what it received.
const receiving = `
services:
  receiver:
    build:
      context: %q
      dockerfile_inline: |
        FROM scratch
        COPY carillon-receiver /carillon-receiver
        USER 65532:65532
        ENTRYPOINT ["/carillon-receiver", "-addr", "0.0.0.0:8090"]
`

// Receiver is the endpoint's address for timers.
const Receiver = "receiver:8090"

// NewProject creates keys as the quick start does, and an endpoint. It starts nothing.
func NewProject(ctx context.Context, root, dir string) (*Project, error) {
	keys := filepath.Join(dir, "keys.env")
	//nolint:gosec // a script of our own
	made := exec.CommandContext(ctx, root+"/scripts/keys.sh", keys)
	made.Stderr = os.Stderr
	if err := made.Run(); err != nil {
		return nil, fmt.Errorf("creating keys: %w", err)
	}
	//nolint:gosec // as above
	built := exec.CommandContext(
		ctx,
		"go",
		"build",
		"-trimpath",
		"-o",
		dir,
		"./e2e/receiver/cmd/carillon-receiver",
	)
	built.Dir, built.Env, built.Stderr = root, append(
		os.Environ(),
		"CGO_ENABLED=0",
		"GOOS=linux",
	), os.Stderr
	if err := built.Run(); err != nil {
		return nil, fmt.Errorf("building the endpoint: %w", err)
	}
	extra := filepath.Join(dir, "receiver.yaml")
	if err := os.WriteFile(extra, fmt.Appendf(nil, receiving, dir), 0o600); err != nil {
		return nil, fmt.Errorf("writing the endpoint's compose file: %w", err)
	}
	text, err := os.ReadFile(keys)
	if err != nil {
		return nil, fmt.Errorf("reading the keys: %w", err)
	}
	p := &Project{name: "carillon-e2e-" + strconv.Itoa(os.Getpid())}
	for line := range strings.Lines(string(text)) {
		if key, ok := strings.CutPrefix(strings.TrimSpace(line), "CARILLON_ADMIN_KEY="); ok {
			p.Key = key
		}
	}
	p.args = []string{
		"compose",
		"--progress",
		"plain",
		"--ansi",
		"never",
		"-p",
		p.name,
		"--env-file",
		keys,
		"-f",
		root + "/deploy/compose.yaml",
		"-f",
		extra,
	}
	p.env = []string{"CARILLON_CALLBACK_ALLOW=" + Receiver}
	for variable, to := range map[string]*string{"CARILLON_PORT": &p.API, "PROMETHEUS_PORT": &p.Prometheus, "GRAFANA_PORT": &p.Grafana} {
		port, err := FreePort(ctx)
		if err != nil {
			return nil, err
		}
		p.env = append(p.env, variable+"="+port)
		*to = "http://127.0.0.1:" + port
	}
	return p, nil
}

// FreePort returns a port of this machine on which nothing listens.
func FreePort(ctx context.Context) (string, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("looking for a free port: %w", err)
	}
	_, port, err := net.SplitHostPort(l.Addr().String())
	_ = l.Close()
	return port, err //nolint:wrapcheck // an address of the kernel's
}

// Compose runs a compose command on the project.
func (p *Project) Compose(ctx context.Context, args ...string) (string, error) {
	return docker(ctx, p.env, append(slices.Clip(p.args), args...)...)
}

// Container is docker's description of a container.
type Container struct {
	Name         string
	Image        string
	RestartCount int
	State        struct {
		Status   string
		Pid      int
		ExitCode int
		Health   struct{ Status string }
	}
	HostConfig struct {
		ReadonlyRootfs bool
		CapDrop        []string
		SecurityOpt    []string
	}
}

// Containers returns the containers of a service.
func (p *Project) Containers(ctx context.Context, service string) ([]Container, error) {
	ids, err := p.Compose(ctx, "ps", "--all", "--quiet", service)
	if err != nil {
		return nil, err
	}
	var all []Container
	for _, id := range lines(ids) {
		var c Container
		if err := inspect(ctx, "container", id, &c); err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	return all, nil
}

// Kill kills a container's process as a crash does. docker kill would not: docker treats that as a
// requested stop and does not restart the container.
func (p *Project) Kill(ctx context.Context, c *Container) error {
	// Any image with a shell works; this one exists.
	_, err := docker(
		ctx,
		nil,
		"run",
		"--rm",
		"--pid",
		"host",
		"--privileged",
		"--network",
		"none",
		"--user",
		"0:0",
		"--entrypoint",
		"/bin/sh",
		"redis:7.4",
		"-c",
		fmt.Sprintf("kill -9 %d", c.State.Pid),
	)
	return err
}

// Down removes everything, with the images that compose built.
func (p *Project) Down(ctx context.Context) error {
	_, err := p.Compose(ctx, "down", "--volumes", "--rmi", "local")
	return err
}

// Leftovers lists what docker still has of the project.
func (p *Project) Leftovers(ctx context.Context) ([]string, error) {
	var left []string
	for _, list := range [][]string{
		{"ps", "--all"}, {"volume", "ls"}, {"network", "ls"}, {"image", "ls"},
	} {
		out, err := docker(
			ctx,
			nil,
			append(list, "--quiet", "--filter", "label=com.docker.compose.project="+p.name)...)
		if err != nil {
			return nil, err
		}
		for _, id := range lines(out) {
			left = append(left, strings.Join(list, " ")+": "+id)
		}
	}
	// Images that compose builds do not have its label.
	out, err := docker(ctx, nil, "image", "ls", "--quiet", "--filter", "reference="+p.name+"-*")
	if err != nil {
		return nil, err
	}
	for _, id := range lines(out) {
		left = append(left, "image: "+id)
	}
	return left, nil
}
