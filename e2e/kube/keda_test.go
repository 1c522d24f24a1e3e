package kube_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/e2e/client"
	"github.com/carillon-timer/carillon/e2e/cluster"
	"github.com/carillon-timer/carillon/e2e/kube"
	"github.com/carillon-timer/carillon/e2e/receiver"
)

// TestKEDAScalesExecutors lets KEDA act, if it runs (scripts/kube/keda.sh). The executors are
// removed, their tasks wait in Pulsar, and KEDA must request more executors. It does not run in
// parallel, for the reason given at TestOptionalObjects.
func TestKEDAScalesExecutors(t *testing.T) {
	s := onKube(t)
	served, err := exec.CommandContext(t.Context(), "kubectl", "get", "apiservice", "v1beta1.external.metrics.k8s.io", "--ignore-not-found",
		"-o", `jsonpath={.spec.service.name} {.status.conditions[?(@.type=="Available")].status}`).
		CombinedOutput()
	require.NoError(t, err, "%s", served)
	if !strings.Contains(string(served), "keda") || !strings.Contains(string(served), "True") {
		t.Skipf(
			"!!! SKIPPED, UNTESTED: %s: no KEDA serves metrics in the cluster (scripts/kube/keda.sh build)",
			t.Name(),
		)
	}
	servers, free, err := cluster.RealServers()
	require.NoError(t, err)
	defer free()
	c, err := kube.StartCluster(
		t.Context(),
		s,
		fmt.Sprintf("keda-%d", time.Now().UnixMilli()),
		cluster.Options{Replicas: 1, Dir: t.TempDir()},
		servers,
	)
	require.NoError(t, err)
	defer func() {
		if t.Failed() {
			t.Log(c.Describe(t.Context()))
			for _, what := range []string{"scaledobject", "hpa"} {
				said, err := c.Kubectl(t.Context(), "describe", what)
				t.Log(said, err)
			}
		}
		require.NoError(t, c.Uninstall(t.Context()))
		require.NoError(t, c.Release.Close(t.Context()))
	}()

	// As the example says, with a token that no server checks.
	rest, values := example(t, filepath.Join(s.Chart, "examples", "keda.yaml"))
	require.NoError(
		t,
		c.Secret(
			t.Context(),
			"carillon-servers",
			"CARILLON_PULSAR_TOKEN",
			"a token for tests only",
		),
	)
	said, err := take(t, c, strings.Join(rest, "\n---\n"))
	require.NoError(t, err, said)
	file := filepath.Join(t.TempDir(), "values.yaml")
	require.NoError(t, os.WriteFile(file, []byte(values), 0o600))
	files := []string{file, "testdata/keda.yaml"}
	require.NoError(t, c.UpgradeWith(t.Context(), upgradeTimeout, files...))
	_, err = c.Kubectl(
		t.Context(),
		"wait",
		"--for=condition=Ready",
		"scaledobject",
		"--all",
		"--timeout=2m",
	)
	require.NoError(t, err)
	// KEDA reads the topics, and Kubernetes reads KEDA's metrics.
	for _, of := range []string{"executor", "trigger"} {
		require.Eventually(t, func() bool {
			said, err := c.Kubectl(
				t.Context(),
				"get",
				"hpa",
				"keda-hpa-carillon-"+of,
				"-o",
				`jsonpath={.status.conditions[?(@.type=="ScalingActive")].status}`,
			)
			t.Log(of, said, err)
			return err == nil && said == "True"
		}, patience, 2*time.Second, of)
	}
	require.Equal(t, "1", executorsWanted(t, c))

	// No node has the capacity for executors with this request. The running ones end with their
	// ReplicaSet.
	old, err := c.Kubectl(
		t.Context(),
		"get",
		"replicaset",
		"-l",
		"app.kubernetes.io/component=executor",
		"-o",
		"name",
	)
	require.NoError(t, err)
	_, err = c.Helm(
		t.Context(),
		"upgrade",
		"carillon",
		s.Chart,
		"--reuse-values",
		"--set",
		"executor.nodeSelector.no=such",
	)
	require.NoError(t, err)
	_, err = c.Kubectl(
		t.Context(),
		append([]string{"delete", "--cascade=foreground"}, strings.Fields(old)...)...)
	require.NoError(t, err)
	rcv, err := receiver.Start(t.Context(), net.JoinHostPort(s.Host, "0"))
	require.NoError(t, err)
	defer func() { require.NoError(t, rcv.Close()) }()
	api := client.New(c.API)
	defer api.Close()
	require.Equal(t, "1", executorsWanted(t, c), "no task waits yet")
	const timers = 100
	due := time.Now().Add(5 * time.Second)
	for i := range timers {
		_, _, err := api.Create(t.Context(), client.NewTimer{
			App:      "keda",
			Name:     fmt.Sprintf("shot-%d", i),
			Schedule: client.At(due),
			Target:   client.Post(rcv.URL("/keda")),
			Status:   "active",
		})
		require.NoError(t, err)
	}
	require.Eventually(t, func() bool {
		n := executorsWanted(t, c)
		t.Logf("%s after the instant executors: %s", time.Since(due).Round(time.Second), n)
		return n == "3"
	}, patience, 2*time.Second)
	require.Empty(t, rcv.Arrivals())
	said, err = c.Kubectl(t.Context(), "get", "hpa", "keda-hpa-carillon-executor")
	require.NoError(t, err)
	t.Log(said)

	// Once a node has the capacity, the requested executors start and make the calls.
	require.NoError(t, c.UpgradeWith(t.Context(), upgradeTimeout, files...))
	require.Equal(t, "3", executorsWanted(t, c), "an upgrade leaves the number to KEDA")
	require.Eventually(t, func() bool { // the executor without a node is removed a moment later
		pods, err := c.Pods(t.Context(), "executor")
		return err == nil && len(pods) == 3
	}, patience, time.Second)
	require.Eventually(
		t,
		func() bool { return len(rcv.Arrivals()) == timers },
		patience,
		time.Second,
	)
}

func executorsWanted(t *testing.T, c *kube.Cluster) string {
	t.Helper()
	said, err := c.Kubectl(
		t.Context(),
		"get",
		"deployment",
		"carillon-executor",
		"-o",
		"jsonpath={.spec.replicas}",
	)
	require.NoError(t, err)
	return said
}
