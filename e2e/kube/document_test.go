package kube_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/e2e/client"
	"github.com/carillon-timer/carillon/e2e/cluster"
	"github.com/carillon-timer/carillon/libs/testenv/document"
)

// TestCommandsOfDocuments runs the commands of documents that need Kubernetes, in a namespace of its
// own: it installs the chart, replaces the admin key, and reads CronJobs. It does not run in
// parallel, for the reason given at TestOptionalObjects.
func TestCommandsOfDocuments(t *testing.T) {
	s := onKube(t)
	root, err := cluster.Root()
	require.NoError(t, err)
	servers, free, err := cluster.RealServers()
	require.NoError(t, err)
	defer free()
	namespace := fmt.Sprintf("documents-%d", time.Now().UnixMilli())
	kubectl := func(ctx context.Context, args ...string) string {
		said, err := exec.CommandContext(ctx, "kubectl", append(args, "-n", namespace)...).Output()
		require.NoError(t, err)
		return string(said)
	}
	defer func() {
		ctx := context.WithoutCancel(t.Context())
		if t.Failed() {
			t.Log(kubectl(ctx, "get", "pods", "-o", "wide"))
			t.Log(kubectl(ctx, "get", "events", "--sort-by=.lastTimestamp"))
		}
		kubectl(ctx, "delete", "namespace", namespace)
	}()
	run := func(dir, page, need string, replace ...string) string {
		blocks, err := document.Needing(root, page, need)
		require.NoError(t, err)
		said, err := document.Run(t.Context(), dir, []string{"CARILLON_APP=shop"}, blocks, append(
			replace,
			"namespace carillon\n", "namespace "+namespace+"\n",
			"-n carillon ", "-n "+namespace+" ", "-n carillon\n", "-n "+namespace+"\n",
		)...)
		require.NoError(t, err)
		t.Logf("%s:\n%s", page, said)
		return said
	}

	// The test's own images, servers and sizes.
	run(root, "helm/carillon/README.md", "kubernetes",
		"carillon:…@tcp(mysql:3306)/carillon", servers.MySQLDSN,
		"image.registry=registry.example.com/team,image.tag=v0.1.0",
		"image.registry="+s.Registry+",image.tag="+s.Tag,
		"redis.addrs={redis:6379}", "redis.addrs={"+strings.Join(servers.RedisAddrs, "\\,")+
			"}' --set 'redis.prefix="+servers.RedisPrefix,
		"pulsar.url=pulsar://pulsar:6650,pulsar.adminUrl=http://pulsar:8080",
		"pulsar.url="+servers.PulsarURL+",pulsar.adminUrl="+servers.PulsarAdminURL+
			",pulsar.tenant="+servers.PulsarTenant+",pulsar.namespace="+servers.PulsarNamespace+
			",defaults.resources.requests.cpu=10m,executor.resources.requests.cpu=10m",
	)
	adminKey := func() string {
		key := kubectl(t.Context(), "get", "secret", "carillon-root-keys",
			"-o", "go-template={{.data.adminKey | base64decode}}")
		require.NotEmpty(t, key)
		return key
	}
	first := adminKey()
	run(root, "docs/how-to/keys.md", "kubernetes")
	second := adminKey()
	require.NotEqual(t, first, second)
	address := s.API
	if address == "" {
		address = "http://" + kubectl(t.Context(), "get", "service", "carillon-api",
			"-o", "jsonpath={.spec.clusterIP}")
	}
	api := client.New(func() string { return address })
	defer api.Close()
	_, _, err = api.WithKey(second).List(t.Context(), "shop", "", 1, "")
	require.NoError(t, err)
	require.Eventually(t, func() bool { // replicas with the old key are stopping
		_, _, err = api.WithKey(first).List(t.Context(), "shop", "", 1, "")
		e, ok := err.(*client.Error) //nolint:errorlint // the client wraps none
		return ok && e.Status == http.StatusUnauthorized
	}, patience, time.Second, "the old key still works")

	kubectl(t.Context(), "create", "cronjob", "report", "--image=busybox", "--schedule=0 9 * * *")
	programs := t.TempDir()
	build := exec.CommandContext(
		t.Context(), "go", "build", "-o", programs, "./services/cli/cmd/carillon")
	build.Dir = root
	said, err := build.CombinedOutput()
	require.NoError(t, err, "%s", said)
	dir := t.TempDir()
	run(dir, "docs/how-to/migrate.md", "kubernetes", "carillon import", programs+"/carillon import")
	jobs, err := os.ReadFile(filepath.Join(dir, "jobs.yaml"))
	require.NoError(t, err)
	require.Contains(t, string(jobs), "https://example.com/run/"+namespace+".report")

	said, err = exec.CommandContext(
		t.Context(), "helm", "uninstall", "carillon", "-n", namespace, "--wait").CombinedOutput()
	require.NoError(t, err, "%s", said)
}
