package compose_test

import (
	"context"
	"debug/elf"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/e2e/client"
	"github.com/carillon-timer/carillon/e2e/cluster"
	"github.com/carillon-timer/carillon/e2e/compose"
)

// patience bounds steps without their own timeout, such as a start on a busy machine.
const patience = 10 * time.Minute

// services are the services that have an image and run permanently.
var services = []string{"api", "migrator", "scheduler", "trigger", "executor"}

// onDocker skips the test with a warning unless Docker is requested.
func onDocker(t *testing.T) string {
	t.Helper()
	if os.Getenv("CARILLON_E2E_COMPOSE") == "" {
		t.Skipf(
			"!!! SKIPPED, UNTESTED: %s: CARILLON_E2E_COMPOSE is not set (make e2e-compose)",
			t.Name(),
		)
	}
	root, err := cluster.Root()
	require.NoError(t, err)
	return root
}

// TestImages builds each program's image by the Dockerfile and compares it with the one of make
// images.
//
//nolint:paralleltest // two builds at once would only be slower, and the project's come from the same cache
func TestImages(t *testing.T) {
	root := onDocker(t)
	const version = "v0.0.1-e2e"
	dir := t.TempDir()
	made := exec.CommandContext(
		t.Context(),
		root+"/scripts/images.sh",
		dir,
		"-arch",
		"amd64",
		"-version",
		version,
		"-registry",
		"carillon.e2e",
		"-oci=false",
	)
	said, err := made.CombinedOutput()
	require.NoError(t, err, string(said))
	for _, service := range append([]string{"carillon"}, services...) {
		program := "carillon-" + service
		if service == "carillon" {
			program = service
		}
		t.Run(program, func(t *testing.T) { //nolint:paralleltest // as above
			name := "carillon.e2e/dockerfile/" + program + ":" + version
			began := time.Now()
			require.NoError(t, compose.Build(t.Context(), root, service, version, "amd64", name))
			defer remove(t, name)
			image, err := compose.Inspect(t.Context(), name)
			require.NoError(t, err)
			t.Logf(
				"%s: %d MB, built in %s",
				program,
				image.Size>>20,
				time.Since(began).Round(time.Second),
			)
			require.Less(t, image.Size, int64(64<<20))

			other := "carillon.e2e/" + program + ":" + version
			load := exec.CommandContext(
				t.Context(),
				"docker",
				"load",
				"--quiet",
				"--input",
				filepath.Join(dir, program+"-amd64.tar"),
			)
			said, err := load.CombinedOutput()
			require.NoError(t, err, string(said))
			defer remove(t, other)
			twin, err := compose.Inspect(t.Context(), other)
			require.NoError(t, err)
			same(t, &twin.Config, &image.Config)
			require.Equal(t, "65532:65532", image.Config.User)
			checkMinimalImage(t, name, elf.EM_X86_64)
			checkNoShell(t, name)
		})
	}
	t.Run("arm64", func(t *testing.T) { //nolint:paralleltest // as above
		name := "carillon.e2e/dockerfile/carillon-scheduler:" + version + "-arm64"
		require.NoError(t, compose.Build(t.Context(), root, "scheduler", version, "arm64", name))
		defer remove(t, name)
		image, err := compose.Inspect(t.Context(), name)
		require.NoError(t, err)
		require.Equal(t, "arm64", image.Architecture)
		checkMinimalImage(t, name, elf.EM_AARCH64)
	})
}

// same compares the configurations of two ways to build an image. Docker adds a PATH to an image
// without one.
func same(t *testing.T, want, have *compose.Config) {
	t.Helper()
	for _, c := range []*compose.Config{want, have} {
		c.Env = slices.DeleteFunc(
			c.Env,
			func(s string) bool { return strings.HasPrefix(s, "PATH=") },
		)
	}
	require.Equal(t, want, have)
}

// checkMinimalImage checks that an image has only one static program, the certificate authorities,
// and a data directory that belongs to nobody.
func checkMinimalImage(t *testing.T, name string, machine elf.Machine) {
	t.Helper()
	files, err := compose.Files(t.Context(), name)
	require.NoError(t, err)
	var names []string
	for n := range files {
		names = append(names, n)
	}
	slices.Sort(names)
	require.Equal(
		t,
		[]string{
			"carillon",
			"data",
			"etc/ssl",
			"etc/ssl/certs",
			"etc/ssl/certs/ca-certificates.crt",
		},
		names,
	)
	require.Equal(t, 65532, files["data"].Header.Uid)
	require.NotZero(t, files["etc/ssl/certs/ca-certificates.crt"].Header.Size)
	program := files["carillon"].Program
	require.Equal(t, machine, program.Machine)
	require.False(
		t,
		slices.ContainsFunc(
			program.Progs,
			func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP },
		),
		"it needs a loader: not static",
	)
}

func checkNoShell(t *testing.T, name string) {
	t.Helper()
	said, err := exec.CommandContext(t.Context(), "docker", "run", "--rm", "--network", "none", "--entrypoint", "sh", name).
		CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(said), "executable file not found")
}

func remove(t *testing.T, image string) {
	t.Helper()
	said, err := exec.CommandContext(context.WithoutCancel(t.Context()), "docker", "image", "rm", image).
		CombinedOutput()
	require.NoError(t, err, string(said))
}

// environment is a running compose project, with a client of its API.
type environment struct {
	*compose.Project
	api *client.Client
}

// TestCompose exercises a deployment on one machine.
//
//nolint:paralleltest // each part goes on where the one before ended
func TestCompose(t *testing.T) {
	root := onDocker(t)
	p, err := compose.NewProject(t.Context(), root, t.TempDir())
	require.NoError(t, err)
	env := &environment{Project: p, api: client.New(func() string { return p.API }).WithKey(p.Key)}
	defer env.api.Close()
	defer func() {
		ctx := context.WithoutCancel(t.Context())
		if t.Failed() {
			for _, args := range [][]string{{"ps", "--all"}, {"logs", "--no-color", "--tail", "40"}} {
				said, err := p.Compose(ctx, args...)
				t.Logf("%s\n%v", said, err)
			}
		}
		require.NoError(t, p.Down(ctx))
	}()
	for _, part := range []struct {
		name string
		do   func(*testing.T, *environment)
	}{
		{"no start without keys", func(t *testing.T, _ *environment) { checkKeysRequired(t, root) }},
		{"up", up},
		{"containers are hardened", checkHardening},
		{"a timer is called", func(t *testing.T, env *environment) { env.checkDelivery(t, "first") }},
		{"prometheus", prometheus},
		{"grafana", grafana},
		{"scale", scale},
		{"restart", restart},
		{"killed processes are replaced", killed},
		{"down leaves nothing", down},
	} {
		began := time.Now()
		//nolint:paralleltest // as above
		if !t.Run(part.name, func(t *testing.T) { part.do(t, env) }) {
			return
		}
		t.Logf("%s: %s", part.name, time.Since(began).Round(100*time.Millisecond))
	}
}

// checkKeysRequired checks that a deployment without keys does not start, so that none is open to
// everybody by mistake.
func checkKeysRequired(t *testing.T, root string) {
	cmd := exec.CommandContext(
		t.Context(),
		"docker",
		"compose",
		"-p",
		"carillon-e2e-without",
		"--env-file",
		"/dev/null",
		"-f",
		root+"/deploy/compose.yaml",
		"config",
		"--quiet",
	)
	cmd.Env = slices.DeleteFunc(
		os.Environ(),
		func(s string) bool { return strings.HasPrefix(s, "CARILLON_") },
	)
	said, err := cmd.CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(said), "scripts/keys.sh deploy/.env makes one")
}

// up runs the command of the quick start.
func up(t *testing.T, env *environment) {
	_, err := env.Compose(t.Context(), "up", "--build", "--detach", "--wait")
	require.NoError(t, err)
	set, err := env.Containers(t.Context(), "setup")
	require.NoError(t, err)
	require.Len(t, set, 1)
	require.Equal(t, "exited", set[0].State.Status)
	require.Zero(t, set[0].State.ExitCode)
	require.Zero(t, set[0].RestartCount, "the setup started before its servers were ready")
	for _, service := range append([]string{"mysql", "redis", "pulsar", "prometheus", "grafana"}, services...) {
		for _, c := range env.healthy(t, service, 1) {
			require.Zero(t, c.RestartCount, "%s was restarted", c.Name)
		}
	}
}

// healthy waits until n containers of a service are healthy.
func (env *environment) healthy(t *testing.T, service string, n int) []compose.Container {
	t.Helper()
	var have []compose.Container
	require.Eventually(t, func() bool {
		var err error
		have, err = env.Containers(t.Context(), service)
		require.NoError(t, err)
		for _, c := range have {
			if c.State.Status != "running" || c.State.Health.Status != "healthy" {
				return false
			}
		}
		return len(have) == n
	}, patience, time.Second, "%s is healthy", service)
	return have
}

// checkHardening checks the running containers, not the compose file.
func checkHardening(t *testing.T, env *environment) {
	for _, service := range services {
		c := env.healthy(t, service, 1)[0]
		require.True(t, c.HostConfig.ReadonlyRootfs, service)
		require.Equal(t, []string{"ALL"}, c.HostConfig.CapDrop, service)
		require.Equal(t, []string{"no-new-privileges:true"}, c.HostConfig.SecurityOpt, service)
		said, err := exec.CommandContext(t.Context(), "docker", "top", strings.TrimPrefix(c.Name, "/"), "-o", "pid,uid,args").
			CombinedOutput()
		require.NoError(t, err, string(said))
		require.Regexp(t, `(?m)^\d+ +65532 +/carillon$`, string(said), service)
	}
}

// checkDelivery creates a timer that calls a container of the project, and checks the history.
func (env *environment) checkDelivery(t *testing.T, name string) {
	t.Helper()
	before := env.received(t)
	made, _, err := env.api.Create(t.Context(), client.NewTimer{
		App:      "demo",
		Name:     name,
		Status:   "active",
		Schedule: client.Delay(2 * time.Second),
		Target:   client.Post("http://" + compose.Receiver + "/" + name),
	})
	require.NoError(t, err)
	var fires []client.Fire
	require.Eventually(t, func() bool {
		fires, err = env.api.History(t.Context(), "demo", made.TimerID())
		return err == nil && len(fires) == 1 && fires[0].Status != "open"
	}, patience, 500*time.Millisecond, "%s: %v", name, fires)
	require.Equal(t, "delivered", fires[0].Status)
	require.EqualValues(t, http.StatusOK, fires[0].StatusCode)
	t.Logf("%s: %d ms late", name, fires[0].LatenessMS)
	require.Eventually(
		t,
		func() bool { return env.received(t) > before },
		patience,
		500*time.Millisecond,
	)
}

// received returns the endpoint's count of callbacks, which it logs each second.
func (env *environment) received(t *testing.T) int {
	t.Helper()
	said, err := env.Compose(t.Context(), "logs", "--no-log-prefix", "--tail", "1", "receiver")
	require.NoError(t, err)
	at := regexp.MustCompile(`"arrivals":(\d+)`).FindStringSubmatch(said)
	if at == nil {
		return 0
	}
	n, err := strconv.Atoi(at[1])
	require.NoError(t, err)
	return n
}

// get reads JSON from a server of the project.
func get(t *testing.T, url string, into any) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	require.NoError(t, err)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, res.Status)
	}
	return json.NewDecoder(res.Body).Decode(into)
}

// targets waits until Prometheus reaches exactly the wanted number of each target.
func (env *environment) targets(t *testing.T, want map[string]int) {
	t.Helper()
	var have map[string]int
	require.Eventually(t, func() bool {
		var said struct {
			Data struct {
				ActiveTargets []struct {
					Labels    struct{ Job, Service string }
					Health    string
					LastError string
				}
			}
		}
		if get(t, env.Prometheus+"/api/v1/targets?state=active", &said) != nil {
			return false
		}
		have = make(map[string]int)
		for _, target := range said.Data.ActiveTargets {
			have[target.Labels.Job+"/"+target.Labels.Service+" "+target.Health]++
		}
		return fmt.Sprint(have) == fmt.Sprint(want)
	}, patience, time.Second, "want %v, have %v", want, &have)
}

func everyone(executors int) map[string]int {
	return map[string]int{
		"carillon/api up":       1,
		"carillon/migrator up":  1,
		"carillon/scheduler up": 1,
		"carillon/trigger up":   1,
		"carillon/executor up":  executors,
		"pulsar/ up":            1,
	}
}

func prometheus(t *testing.T, env *environment) {
	env.targets(t, everyone(1))
	var said struct {
		Data struct {
			Groups []struct {
				Name  string
				Rules []struct{ Name, Health, LastError string }
			}
		}
	}
	rules := 0
	require.Eventually(t, func() bool {
		require.NoError(t, get(t, env.Prometheus+"/api/v1/rules", &said))
		rules = 0
		for _, g := range said.Data.Groups {
			for _, r := range g.Rules {
				require.NotEqual(t, "err", r.Health, "%s: %s", r.Name, r.LastError)
				if r.Health != "ok" {
					return false // not evaluated yet
				}
				rules++
			}
		}
		return rules > 0
	}, patience, time.Second)
	t.Logf("%d alerts in %d groups", rules, len(said.Data.Groups))
}

func scale(t *testing.T, env *environment) {
	_, err := env.Compose(t.Context(), "up", "--detach", "--wait", "--scale", "executor=2")
	require.NoError(t, err)
	env.healthy(t, "executor", 2)
	env.targets(t, everyone(2))
	env.checkDelivery(t, "scaled")
}

func restart(t *testing.T, env *environment) {
	for _, service := range []string{"trigger", "api"} {
		_, err := env.Compose(t.Context(), "restart", service)
		require.NoError(t, err)
		env.healthy(t, service, 1)
	}
	env.checkDelivery(t, "restarted")
}

// killed checks that crashed containers are restarted and that the others recover. It kills the
// servers one after the other, then all services at once.
func killed(t *testing.T, env *environment) {
	for _, together := range [][]string{{"redis"}, {"pulsar"}, {"mysql"}, services} {
		before := make(map[string][]compose.Container)
		for _, service := range together {
			before[service] = mustContainers(t, env, service)
		}
		began := time.Now()
		for _, service := range together {
			for i := range before[service] {
				require.NoError(t, env.Kill(t.Context(), &before[service][i]))
			}
		}
		for _, service := range together {
			for i, c := range before[service] {
				env.restarted(t, service, i, c.RestartCount)
			}
		}
		healed := time.Since(began)
		// They are ready once they reach their servers.
		for _, s := range services {
			env.healthy(t, s, len(mustContainers(t, env, s)))
		}
		env.checkDelivery(t, "after-"+together[0])
		t.Logf(
			"%v killed: healthy after %s, delivering after %s",
			together,
			healed.Round(time.Second),
			time.Since(began).Round(time.Second),
		)
	}
}

// restarted waits until docker has restarted a service's container once more than before, and it is
// healthy.
func (env *environment) restarted(t *testing.T, service string, i, before int) {
	t.Helper()
	require.Eventually(t, func() bool {
		now := mustContainers(t, env, service)
		return len(now) > i && now[i].RestartCount > before &&
			now[i].State.Health.Status == "healthy"
	}, patience, 500*time.Millisecond, "%s is restarted", service)
}

func mustContainers(t *testing.T, env *environment, service string) []compose.Container {
	t.Helper()
	all, err := env.Containers(t.Context(), service)
	require.NoError(t, err)
	return all
}

func down(t *testing.T, env *environment) {
	require.NoError(t, env.Down(t.Context()))
	left, err := env.Leftovers(t.Context())
	require.NoError(t, err)
	require.Empty(t, left)
}
