package main

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

const (
	versionVariable = "github.com/carillon-timer/carillon/libs/process.version"
	nobody          = 65532
)

// compile builds the programs for an architecture into dir, as the Dockerfile does: static, without
// paths of this machine.
func compile(ctx context.Context, o *options, arch, dir string) error {
	args := []string{
		"build",
		"-trimpath",
		"-ldflags",
		"-s -w -X " + versionVariable + "=" + o.version,
		"-o",
		dir + string(filepath.Separator),
	}
	for _, p := range o.only {
		args = append(args, source(p))
	}
	cmd := exec.CommandContext(ctx, "go", args...) //nolint:gosec // arguments of our own
	cmd.Dir = filepath.Join(o.root, "services")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOOS=linux", "GOARCH="+arch)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("building for %s: %w", arch, err)
	}
	return nil
}

func source(program string) string {
	if program == "carillon" {
		return "./cli/cmd/carillon"
	}
	return "./" + program[len("carillon-"):] + "/cmd/" + program
}

// image returns an image with one layer and the Dockerfile's configuration; a test compares the
// two.
func image(o *options, program, arch, file string, roots []byte) (v1.Image, error) {
	binary, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	content, err := layer(binary, roots, o.created)
	if err != nil {
		return nil, err
	}
	l, err := tarball.LayerFromOpener(
		func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil },
	)
	if err != nil {
		return nil, err
	}
	img, err := mutate.Append(empty.Image, mutate.Addendum{
		Layer: l,
		History: v1.History{
			Created:   v1.Time{Time: o.created},
			CreatedBy: "deploy/tools/cmd/images",
			Comment:   program,
		},
	})
	if err != nil {
		return nil, err
	}
	c, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	c = c.DeepCopy()
	c.OS, c.Architecture, c.Created = "linux", arch, v1.Time{Time: o.created}
	c.Config = configuration(o)
	return mutate.ConfigFile(img, c)
}

func configuration(o *options) v1.Config {
	return v1.Config{
		Entrypoint: []string{"/carillon"},
		Env: []string{
			"CARILLON_HTTP_ADDR=:8080",
			"CARILLON_ADMIN_ADDR=:8081",
			"CARILLON_LOG_FORMAT=json",
		},
		User:         fmt.Sprintf("%d:%d", nobody, nobody),
		WorkingDir:   "/", // where the default of data-dir, ./data, is /data
		ExposedPorts: map[string]struct{}{"8080/tcp": {}, "8081/tcp": {}},
		Healthcheck: &v1.HealthConfig{
			Test: []string{
				"CMD",
				"/carillon",
				"probe",
			},
			Interval:    5 * time.Second,
			Timeout:     4 * time.Second,
			StartPeriod: 60 * time.Second,
			Retries:     3,
		},
		Labels: map[string]string{
			"org.opencontainers.image.version":  o.version,
			"org.opencontainers.image.source":   "https://github.com/carillon-timer/carillon",
			"org.opencontainers.image.licenses": "Apache-2.0",
		},
	}
}

// layer returns the file system: the program, the certificate authorities, and an empty /data owned
// by nobody. All times are the commit's.
func layer(binary, roots []byte, at time.Time) ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, f := range []struct {
		name  string
		mode  int64
		owner int
		body  []byte
	}{
		{name: "etc/", mode: 0o755},
		{name: "etc/ssl/", mode: 0o755},
		{name: "etc/ssl/certs/", mode: 0o755},
		{name: "etc/ssl/certs/ca-certificates.crt", mode: 0o644, body: roots},
		{name: "data/", mode: 0o755, owner: nobody},
		{name: "carillon", mode: 0o755, body: binary},
	} {
		h := &tar.Header{
			Name:    f.name,
			Mode:    f.mode,
			Uid:     f.owner,
			Gid:     f.owner,
			ModTime: at,
			Size:    int64(len(f.body)),
			Format:  tar.FormatPAX,
		}
		h.Typeflag = tar.TypeReg
		if f.body == nil {
			h.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.body); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
