package kube

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/carillon-timer/carillon/e2e/client"
	"github.com/carillon-timer/carillon/e2e/cluster"
)

// name is the name of every release; a namespace has one.
const name = "carillon"

// Options configures a release.
type Options struct {
	Settings

	Namespace string
	Dir       string // for the values file
	Servers   *cluster.Servers
	Replicas  int
	Env       map[string]string // settings of the services
}

// Release is an installed chart. Only one goroutine at a time may change it.
type Release struct {
	o      Options
	values map[string]any
	api    string
	procs  map[cluster.Role][]*cluster.Process
}

// Install installs the chart and waits until every pod is ready.
func Install(ctx context.Context, o Options) (*Release, error) {
	r := &Release{o: o, values: map[string]any{
		"image": map[string]any{"registry": o.Registry, "tag": o.Tag},
		"mysql": map[string]any{"dsn": o.Servers.MySQLDSN},
		"redis": map[string]any{"addrs": o.Servers.RedisAddrs, "prefix": o.Servers.RedisPrefix},
		"pulsar": map[string]any{
			"url":       o.Servers.PulsarURL,
			"adminUrl":  o.Servers.PulsarAdminURL,
			"tenant":    o.Servers.PulsarTenant,
			"namespace": o.Servers.PulsarNamespace,
		},
		"settings": map[string]any{"callbackAllowPrivate": true},
		// A node of two cores sometimes has two releases, and the additional pod of an upgrade.
		"defaults":   map[string]any{"replicas": o.Replicas, "resources": small},
		"executor":   map[string]any{"resources": small},
		"auth":       map[string]any{"adminKey": client.AdminKey},
		"encryption": map[string]any{"keys": client.EncryptionKeys},
	}}
	if o.Env != nil {
		r.values["extraEnv"] = o.Env
	}
	if _, err := run(ctx, "kubectl", "create", "namespace", o.Namespace); err != nil {
		return nil, err
	}
	if o.OwnSecrets {
		if err := r.ownSecrets(ctx); err != nil {
			return nil, err
		}
	}
	if err := r.upgrade(ctx, "--install"); err != nil {
		said := r.Describe(ctx)
		return nil, fmt.Errorf("%w\n%s", err, said)
	}
	return r, r.Refresh(ctx)
}

// ownSecrets moves secrets from the values to Kubernetes Secrets.
func (r *Release) ownSecrets(ctx context.Context) error {
	for _, s := range []struct{ name, key, value string }{
		{"servers", "CARILLON_MYSQL_DSN", r.o.Servers.MySQLDSN}, {"admin", "key", client.AdminKey}, {"encryption", "keys", client.EncryptionKeys},
	} {
		if err := r.Secret(ctx, s.name, s.key, s.value); err != nil {
			return err
		}
	}
	delete(r.values, "mysql")
	r.values["existingSecret"] = "servers"
	r.values["auth"] = map[string]any{
		"adminKeySecret": map[string]string{"name": "admin", "key": "key"},
	}
	r.values["encryption"] = map[string]any{
		"keysSecret": map[string]string{"name": "encryption", "key": "keys"},
	}
	return nil
}

var small = map[string]any{
	"requests": map[string]string{
		"cpu":    "10m",
		"memory": "32Mi",
	},
	"limits": map[string]string{"memory": "512Mi"},
}

// Upgrade changes values, given by path as in helm's --set, and waits until every pod is of the new
// release and ready. If that fails, helm rolls back.
func (r *Release) Upgrade(ctx context.Context, timeout time.Duration, set ...string) error {
	args := []string{"--atomic", "--timeout", timeout.String()}
	for _, s := range set {
		args = append(args, "--set", s)
	}
	if err := r.upgrade(ctx, args...); err != nil {
		return err
	}
	return r.Refresh(ctx)
}

func (r *Release) upgrade(ctx context.Context, more ...string) error {
	b, err := json.Marshal(r.values) // JSON is YAML
	if err != nil {
		return fmt.Errorf("writing the values: %w", err)
	}
	file := filepath.Join(r.o.Dir, r.o.Namespace+"-values.yaml")
	if err := os.WriteFile(file, b, 0o600); err != nil {
		return fmt.Errorf("writing the values: %w", err)
	}
	_, err = r.Helm(
		ctx,
		append(
			[]string{"upgrade", name, r.o.Chart, "-f", file, "--wait", "--timeout", "5m"},
			more...)...)
	return err
}

// UpgradeWith upgrades as Upgrade does, with more values from files.
func (r *Release) UpgradeWith(ctx context.Context, timeout time.Duration, files ...string) error {
	args := []string{"--atomic", "--timeout", timeout.String()}
	for _, f := range files {
		args = append(args, "-f", f)
	}
	if err := r.upgrade(ctx, args...); err != nil {
		return err
	}
	return r.Refresh(ctx)
}

// Secret creates a Secret with one key. The caller deletes it.
func (r *Release) Secret(ctx context.Context, name, key, value string) error {
	_, err := r.Kubectl(ctx, "create", "secret", "generic", name, "--from-literal="+key+"="+value)
	return err
}

// Test runs the chart's test and returns its output.
func (r *Release) Test(ctx context.Context) (string, error) {
	said, err := r.Helm(ctx, "test", name, "--timeout", "3m")
	if err != nil {
		logs, _ := r.Kubectl(ctx, "logs", name+"-test") // the pod of a failed test stays
		return said, fmt.Errorf("%w\n%s", err, logs)
	}
	return said, nil
}

// Uninstall uninstalls the release and waits until its pods are gone.
func (r *Release) Uninstall(ctx context.Context) error {
	_, err := r.Helm(ctx, "uninstall", name, "--wait", "--timeout", "3m")
	return err
}

// Leftovers lists everything in the namespace except events and the objects that Kubernetes puts
// into each namespace.
func (r *Release) Leftovers(ctx context.Context) ([]string, error) {
	kinds, err := run(ctx, "kubectl", "api-resources", "--namespaced", "--verbs=list", "-o", "name")
	if err != nil {
		return nil, err
	}
	wanted := slices.DeleteFunc(
		strings.Fields(kinds),
		func(k string) bool { return strings.HasPrefix(k, "events") },
	)
	all, err := r.Kubectl(ctx, "get", strings.Join(wanted, ","), "-o", "name", "--ignore-not-found")
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(strings.Fields(all), func(o string) bool {
		return o == "configmap/kube-root-ca.crt" || o == "serviceaccount/default"
	}), nil
}

// Close deletes the namespace and everything in it.
func (r *Release) Close(ctx context.Context) error {
	_, err := run(ctx, "kubectl", "delete", "namespace", r.o.Namespace, "--timeout", "3m")
	return err
}

// Describe returns the output of the commands that an operator would run first.
func (r *Release) Describe(ctx context.Context) string {
	var b strings.Builder
	for _, args := range [][]string{
		{"get", "pods", "-o", "wide"},
		{"get", "events", "--sort-by=.lastTimestamp"},
		{"logs", "--prefix", "--tail=15", "--ignore-errors", "-l", "app.kubernetes.io/instance=" + name},
	} {
		said, err := r.Kubectl(ctx, args...)
		fmt.Fprintf(&b, "$ kubectl %s\n%s", strings.Join(args, " "), said)
		if err != nil {
			fmt.Fprintln(&b, err)
		}
	}
	return b.String()
}

// Kubectl runs kubectl in the release's namespace.
func (r *Release) Kubectl(ctx context.Context, args ...string) (string, error) {
	return run(ctx, "kubectl", append([]string{"-n", r.o.Namespace}, args...)...)
}

// Helm runs helm in the release's namespace.
func (r *Release) Helm(ctx context.Context, args ...string) (string, error) {
	return run(ctx, "helm", append(args, "-n", r.o.Namespace)...)
}

// run returns a command's standard output. An error includes all its output.
func run(ctx context.Context, program string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, program, args...) //nolint:gosec // helm or kubectl
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf(
			"%s %s: %w\n%s%s",
			program,
			strings.Join(args, " "),
			err,
			&out,
			&errs,
		)
	}
	return out.String(), nil
}
