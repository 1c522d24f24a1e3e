package kube_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/e2e/cluster"
	"github.com/carillon-timer/carillon/e2e/kube"
)

const (
	allOn          = "testdata/optional.yaml"
	upgradeTimeout = 3 * time.Minute
	// manyReplicas is more than every autoscaler's minimum.
	manyReplicas = 3
)

// TestOptionalObjects adds everything optional to a release, and removes it again. Many of the
// objects are of third-party kinds (scripts/kube/crds.sh). Their controllers are not needed,
// because the test checks what the API server accepts and stores. It does not run in parallel: on
// few cores another release would delay the load of TestRelease.
func TestOptionalObjects(t *testing.T) {
	s := onKube(t)
	servers, free, err := cluster.RealServers()
	require.NoError(t, err)
	defer free()
	c, err := kube.StartCluster(
		t.Context(),
		s,
		fmt.Sprintf("optional-%d", time.Now().UnixMilli()),
		cluster.Options{Replicas: manyReplicas, Dir: t.TempDir()},
		servers,
	)
	require.NoError(t, err)
	defer func() {
		if t.Failed() {
			t.Log(c.Describe(t.Context()))
		}
		require.NoError(t, c.Release.Close(t.Context()))
	}()
	bare := objects(t, c)
	for _, part := range []struct {
		name string
		do   func(*testing.T, *kube.Cluster, *kube.Settings)
	}{
		{"on", switchedOn},
		{"invalid objects are refused", checkInvalidRefused},
		{"off", func(t *testing.T, c *kube.Cluster, _ *kube.Settings) {
			t.Helper()
			require.NoError(t, c.Upgrade(t.Context(), upgradeTimeout))
			require.Eventually(t, func() bool {
				now := objects(t, c)
				t.Logf("besides: %v; missing: %v", without(now, bare), without(bare, now))
				return slices.Equal(now, bare)
			}, patience, 2*time.Second)
		}},
		{"examples", examples},
		{"on again", switchedOn},
		{"uninstall leaves nothing", uninstall},
	} {
		if !t.Run(part.name, func(t *testing.T) { part.do(t, c, s) }) {
			return
		}
	}
}

// switchedOn upgrades to all optional objects.
func switchedOn(t *testing.T, c *kube.Cluster, _ *kube.Settings) {
	require.NoError(t, c.UpgradeWith(t.Context(), upgradeTimeout, allOn))
	want := []string{
		"configmap/carillon-dashboard",
		"horizontalpodautoscaler.autoscaling/carillon-api",
		"horizontalpodautoscaler.autoscaling/carillon-migrator",
		"horizontalpodautoscaler.autoscaling/carillon-scheduler",
		"httproute.gateway.networking.k8s.io/carillon-api",
		"ingress.networking.k8s.io/carillon-api",
		"networkpolicy.networking.k8s.io/carillon-admin",
		"networkpolicy.networking.k8s.io/carillon-api",
		"networkpolicy.networking.k8s.io/carillon-callbacks",
		"networkpolicy.networking.k8s.io/carillon-servers",
		"prometheusrule.monitoring.coreos.com/carillon",
		"servicemonitor.monitoring.coreos.com/carillon",
		"scaledobject.keda.sh/carillon-executor",
		"scaledobject.keda.sh/carillon-trigger",
	}
	require.Subset(t, objects(t, c), want)
	checkPolicies(t, c)
	// An autoscaler takes over the running replicas. helm alone would reset a number that the chart
	// no longer sets to one.
	for _, role := range cluster.Roles() {
		said, err := c.Kubectl(
			t.Context(),
			"get",
			"deployment",
			"carillon-"+string(role),
			"-o",
			"jsonpath={.spec.replicas}",
		)
		require.NoError(t, err)
		require.GreaterOrEqual(t, said, fmt.Sprint(manyReplicas), role)
	}
	checkDeliveryInside(t, c, nil)
}

// checkPolicies applies every object of the release again with strict validation, because helm lets
// the server drop unknown fields.
func checkPolicies(t *testing.T, c *kube.Cluster) {
	t.Helper()
	said, err := take(t, c, manifest(t, c), "--dry-run=server", "--force-conflicts")
	require.NoError(t, err, said)
}

// checkInvalidRefused breaks one object of each optional kind. It proves that the other checks here
// can fail.
func checkInvalidRefused(t *testing.T, c *kube.Cluster, s *kube.Settings) {
	all := strings.Split(manifest(t, c), "\n---\n")
	files, err := filepath.Glob(filepath.Join(s.Chart, "examples", "*.yaml"))
	require.NoError(t, err)
	for _, file := range files {
		rest, _ := example(t, file)
		all = append(all, rest...)
	}
	spoilt := map[string]bool{}
	for _, row := range []struct{ kind, old, wrong string }{
		{"ConfigMap", "\ndata:\n  carillon.json:", "\ndato:\n  carillon.json:"},
		{"HorizontalPodAutoscaler", "averageUtilization:", "targetAverageUtilization:"},
		{"HTTPRoute", "backendRefs:", "backends:"},
		{"HTTPRoute", "PathPrefix", "Prefix"},
		{"Ingress", "service: {name:", "service: {serviceName:"},
		{"NetworkPolicy", "policyTypes:", "types:"},
		{"PrometheusRule", "  expr:", "  expression:"},
		{"ScaledObject", "pollingInterval: 5", "pollingInterval: soon"},
		{"ScaledObject", "authenticationRef:", "authentication:"},
		{"ServiceMonitor", "sourceLabels:", "source_labels:"},
		{"Gateway", "certificateRefs:", "certificates:"},
		{"ClientTrafficPolicy", "earlyRequestHeaders:", "requestHeaders:"},
		{"SecurityPolicy", "claimToHeaders:", "claims:"},
		{"BackendTrafficPolicy", "unit: Second", "unit: Fortnight"},
		{"TriggerAuthentication", "parameter:", "param:"},
	} {
		t.Run(row.kind+" "+strings.TrimSpace(row.wrong), func(t *testing.T) {
			i := slices.IndexFunc(
				all,
				func(o string) bool { return kindOf(o) == row.kind && strings.Contains(o, row.old) },
			)
			require.GreaterOrEqual(t, i, 0, "no %s has %q", row.kind, row.old)
			said, err := take(t, c, all[i], "--dry-run=server", "--force-conflicts")
			require.NoError(t, err, said)
			said, err = take(
				t,
				c,
				strings.Replace(all[i], row.old, row.wrong, 1),
				"--dry-run=server",
				"--force-conflicts",
			)
			require.Error(t, err, "the server accepts it: %s", said)
			t.Log(err)
			// The server must refuse the changed field or value, not another part of the object.
			require.Regexp(
				t,
				`field not declared in schema|unknown field|Unsupported value|expected numeric|must be of type integer`,
				err.Error(),
			)
		})
		spoilt[row.kind] = true
	}
	for _, o := range all { // so that new kinds in chart or examples are covered
		if k := kindOf(
			o,
		); k != "" &&
			!slices.Contains(
				[]string{
					"Deployment",
					"PodDisruptionBudget",
					"Secret",
					"Service",
					"ServiceAccount",
				},
				k,
			) {
			require.True(t, spoilt[k], k)
		}
	}
}

// examples does what each example's first lines say.
func examples(t *testing.T, c *kube.Cluster, s *kube.Settings) {
	files, err := filepath.Glob(filepath.Join(s.Chart, "examples", "*.yaml"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	require.NoError(
		t,
		c.Secret(t.Context(), "carillon-servers", "CARILLON_PULSAR_TOKEN", "none is asked for"),
	)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			rest, values := example(t, file)
			path := filepath.Join(t.TempDir(), "values.yaml")
			require.NoError(t, os.WriteFile(path, []byte(values), 0o600))
			_, err := c.Helm(
				t.Context(),
				"upgrade",
				"carillon",
				s.Chart,
				"--reuse-values",
				"-f",
				path,
				"--wait",
				"--timeout",
				upgradeTimeout.String(),
			)
			require.NoError(t, err)
			checkPolicies(t, c)
			if len(rest) > 0 {
				said, err := take(t, c, strings.Join(rest, "\n---\n"))
				require.NoError(t, err, said)
				require.Equal(t, len(rest), strings.Count(said, "serverside-applied"), said)
			}
			checkDeliveryInside(t, c, s)
			for _, o := range rest {
				path := filepath.Join(t.TempDir(), "object.yaml")
				require.NoError(t, os.WriteFile(path, []byte(o), 0o600))
				_, err := c.Kubectl(t.Context(), "delete", "-f", path)
				require.NoError(t, err)
			}
		})
	}
	_, err = c.Kubectl(t.Context(), "delete", "secret", "carillon-servers")
	require.NoError(t, err)
}

// commented matches the settings in an example that are commented out, but not sentences.
var commented = regexp.MustCompile(`(?m)^( *)# (( *)[a-z][A-Za-z./-]*:( |$))`)

// example returns an example's objects, and the values at its end.
func example(t *testing.T, file string) (rest []string, values string) {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	docs := strings.Split(string(text), "\n---\n")
	last := len(docs) - 1
	return docs[:last], commented.ReplaceAllString(docs[last], "$1$2")
}

// manifest returns the release's manifest.
func manifest(t *testing.T, c *kube.Cluster) string {
	t.Helper()
	said, err := c.Helm(t.Context(), "get", "manifest", "carillon")
	require.NoError(t, err)
	return said
}

// take applies objects completely or not at all.
func take(t *testing.T, c *kube.Cluster, objects string, more ...string) (string, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "objects.yaml")
	require.NoError(t, os.WriteFile(path, []byte(objects), 0o600))
	return c.Kubectl(
		t.Context(),
		append([]string{"apply", "--server-side", "--validate=strict", "-f", path}, more...)...)
}

var kindLine = regexp.MustCompile(`(?m)^kind: (\w+)$`)

func kindOf(object string) string {
	if m := kindLine.FindStringSubmatch(object); m != nil {
		return m[1]
	}
	return ""
}

// changing matches objects that come and go with pods, and helm's record of each upgrade.
var changing = regexp.MustCompile(
	`^(pod|podmetrics\.metrics\.k8s\.io|replicaset\.apps|endpoints|endpointslice\.discovery\.k8s\.io|lease\.coordination\.k8s\.io)/|^secret/sh\.helm\.`,
)

// objects lists the objects of the release's namespace that change only by an upgrade.
func objects(t *testing.T, c *kube.Cluster) []string {
	t.Helper()
	all, err := c.Leftovers(t.Context())
	require.NoError(t, err)
	all = slices.DeleteFunc(all, changing.MatchString)
	slices.Sort(all)
	return all
}

func without(all, these []string) []string {
	return slices.DeleteFunc(
		slices.Clone(all),
		func(o string) bool { return slices.Contains(these, o) },
	)
}
