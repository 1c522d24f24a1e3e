package main

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

var sample = options{
	version:  "v1",
	registry: "registry.example.com/team/",
	created:  time.Unix(1_700_000_000, 0).UTC(),
	arches:   []string{"amd64", "arm64"},
}

func sampleImage(t *testing.T, arch string) v1.Image {
	t.Helper()
	file := filepath.Join(t.TempDir(), "carillon-api")
	if err := os.WriteFile(file, []byte("program of "+arch), 0o755); err != nil {
		t.Fatal(err)
	}
	img, err := image(&sample, "carillon-api", arch, file, []byte("roots"))
	if err != nil {
		t.Fatal(err)
	}
	return img
}

func TestLayer(t *testing.T) {
	t.Parallel()
	layers, err := sampleImage(t, "arm64").Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("%d layers, %v", len(layers), err)
	}
	r, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	have := make(map[string]string)
	for tr := tar.NewReader(r); ; {
		h, err := tr.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(tr)
		have[h.Name] = string(body)
		if !h.ModTime.Equal(sample.created) {
			t.Errorf("%s is of %s", h.Name, h.ModTime)
		}
		if h.Name == "data/" && h.Uid != nobody {
			t.Errorf("/data belongs to %d", h.Uid)
		}
	}
	if have["carillon"] != "program of arm64" ||
		have["etc/ssl/certs/ca-certificates.crt"] != "roots" {
		t.Errorf("%v", have)
	}
}

// TestSameBytes checks that two builds of the same program are identical.
func TestSameBytes(t *testing.T) {
	t.Parallel()
	a, errA := sampleImage(t, "amd64").Digest()
	b, errB := sampleImage(t, "amd64").Digest()
	if errA != nil || errB != nil || a != b {
		t.Errorf("%s and %s (%v, %v)", a, b, errA, errB)
	}
}

// TestDockerfileSaysTheSame checks that the Dockerfile and this program configure an image alike.
func TestDockerfileSaysTheSame(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("../../../Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	c := configuration(&sample)
	want := []string{
		"ENV " + strings.Join(
			c.Env,
			" ",
		) + "\n",
		"USER " + c.User + "\n",
		"WORKDIR " + c.WorkingDir + "\n",
		"EXPOSE 8080 8081\n",
		`ENTRYPOINT ["` + strings.Join(
			c.Entrypoint,
			`", "`,
		) + `"]`,
		`CMD ["` + strings.Join(c.Healthcheck.Test[1:], `", "`) + `"]`,
		"--interval=" + c.Healthcheck.Interval.String(),
		"--timeout=" + c.Healthcheck.Timeout.String(),
		"--retries=3",
		"-X " + versionVariable + "=",
	}
	for name, value := range c.Labels {
		if value == sample.version {
			value = "$VERSION"
		}
		want = append(want, name+"="+value)
	}
	for _, w := range want {
		if !strings.Contains(text, w) {
			t.Errorf("the Dockerfile lacks %q", w)
		}
	}
}

// TestImageLeavesTheDatabaseToItsUser checks that an image names no database. Backup, restore and
// reencrypt refuse mysql-dsn and data-dir together, so the default of data-dir must lead to /data.
func TestImageLeavesTheDatabaseToItsUser(t *testing.T) {
	t.Parallel()
	c := configuration(&sample)
	for _, variable := range c.Env {
		name, _, _ := strings.Cut(variable, "=")
		if name == "CARILLON_DATA_DIR" || name == "CARILLON_MYSQL_DSN" {
			t.Errorf("the image has %s", variable)
		}
	}
	if dir := filepath.Join(c.WorkingDir, "./data"); dir != "/data" {
		t.Errorf("the data directory is %s", dir)
	}
}

func TestArchives(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	amd, arm := sampleImage(t, "amd64"), sampleImage(t, "arm64")
	file := filepath.Join(dir, "a.tar")
	if _, err := writeDocker(&sample, "carillon-api", amd, file); err != nil {
		t.Fatal(err)
	}
	manifest, err := tarball.LoadManifest(func() (io.ReadCloser, error) { return os.Open(file) })
	if err != nil || manifest[0].RepoTags[0] != "registry.example.com/team/carillon-api:v1" {
		t.Fatalf("%v, %v", manifest, err)
	}

	file = filepath.Join(dir, "o.tar")
	if err := writeOCI(
		&sample,
		"carillon-api",
		map[string]v1.Image{"amd64": amd, "arm64": arm},
		file,
	); err != nil {
		t.Fatal(err)
	}
	unpacked := filepath.Join(dir, "oci")
	unpack(t, file, unpacked)
	top, err := layout.ImageIndexFromPath(unpacked)
	if err != nil {
		t.Fatal(err)
	}
	list, err := top.IndexManifest()
	if err != nil || len(list.Manifests) != 1 ||
		list.Manifests[0].Annotations["org.opencontainers.image.ref.name"] != "v1" {
		t.Fatalf("%+v, %v", list, err)
	}
	index, err := top.ImageIndex(list.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	of, err := index.IndexManifest()
	if err != nil || len(of.Manifests) != 2 || of.Manifests[1].Platform.Architecture != "arm64" {
		t.Fatalf("%+v, %v", of, err)
	}
}

func unpack(t *testing.T, file, dir string) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for tr := tar.NewReader(bytes.NewReader(b)); ; {
		h, err := tr.Next()
		if err == io.EOF {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(tr)
		path := filepath.Join(dir, filepath.Clean(h.Name))
		_ = os.MkdirAll(filepath.Dir(path), 0o755)
		if err := os.WriteFile(path, body, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
