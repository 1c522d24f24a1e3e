package main

import (
	"archive/tar"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// writeDocker writes a docker archive, completely or not at all, and returns its size in bytes.
func writeDocker(o *options, program string, img v1.Image, file string) (int64, error) {
	tag, err := name.NewTag(reference(o, program))
	if err != nil {
		return 0, fmt.Errorf("naming the image: %w", err)
	}
	if err := tarball.WriteToFile(file+".new", tag, img); err != nil {
		return 0, fmt.Errorf("writing %s: %w", file, err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		return 0, fmt.Errorf("writing %s: %w", file, err)
	}
	st, err := os.Stat(file)
	if err != nil {
		return 0, fmt.Errorf("writing %s: %w", file, err)
	}
	return st.Size(), nil
}

// writeOCI writes an OCI archive with the image for every architecture under one index.
func writeOCI(o *options, program string, images map[string]v1.Image, file string) error {
	index := mutate.IndexMediaType(empty.Index, "application/vnd.oci.image.index.v1+json")
	for _, arch := range o.arches {
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add:        images[arch],
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}},
		})
	}
	dir, err := os.MkdirTemp(filepath.Dir(file), ".oci-")
	if err != nil {
		return fmt.Errorf("writing %s: %w", file, err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		return fmt.Errorf("writing %s: %w", file, err)
	}
	// containerd and skopeo read these: the full name, and the tag.
	names := map[string]string{
		"io.containerd.image.name":          reference(o, program),
		"org.opencontainers.image.ref.name": o.version,
	}
	if err := path.AppendIndex(index, layout.WithAnnotations(names)); err != nil {
		return fmt.Errorf("writing %s: %w", file, err)
	}
	if err := pack(dir, file+".new"); err != nil {
		return fmt.Errorf("writing %s: %w", file, err)
	}
	return os.Rename(file+".new", file)
}

// pack writes a tar of a directory, in the order of names.
func pack(dir, file string) error {
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	w := tar.NewWriter(out)
	from := os.DirFS(dir)
	err = fs.WalkDir(from, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		body, err := fs.ReadFile(from, path)
		if err != nil {
			return err
		}
		if err := w.WriteHeader(
			&tar.Header{Name: path, Mode: 0o644, Size: int64(len(body)), Format: tar.FormatUSTAR},
		); err != nil {
			return err
		}
		_, err = w.Write(body)
		return err
	})
	if err == nil {
		err = w.Close()
	}
	if cerr := out.Close(); err == nil {
		err = cerr
	}
	return err
}
