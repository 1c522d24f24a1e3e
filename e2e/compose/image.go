package compose

import (
	"archive/tar"
	"bytes"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

// Image is docker's description of an image.
type Image struct {
	ID           string
	Architecture string
	Size         int64
	Config       Config
}

// Config is an image's configuration of its containers.
type Config struct {
	User         string
	Env          []string
	Entrypoint   []string
	Cmd          []string
	WorkingDir   string
	ExposedPorts map[string]struct{}
	Labels       map[string]string
	Healthcheck  map[string]any
}

// Inspect returns the description of an image.
func Inspect(ctx context.Context, name string) (Image, error) {
	var i Image
	return i, inspect(ctx, "image", name, &i)
}

// Build builds an image by the Dockerfile, as its header says.
func Build(ctx context.Context, root, service, version, arch, tag string) error {
	_, err := docker(
		ctx,
		nil,
		"build",
		"--quiet",
		"--platform",
		"linux/"+arch,
		"-f",
		root+"/deploy/Dockerfile",
		"--build-arg",
		"SERVICE="+service,
		"--build-arg",
		"VERSION="+version,
		"-t",
		tag,
		root,
	)
	return err
}

// File is a file of an image. Program has the content of an executable one.
type File struct {
	Header  *tar.Header
	Program *elf.File
}

// Files lists the files of an image, without those that docker adds to each container.
func Files(ctx context.Context, image string) (files map[string]File, err error) {
	// The command never runs. Docker refuses to create a container without one.
	id, err := docker(ctx, nil, "create", image)
	if err != nil {
		return nil, err
	}
	id = strings.TrimSpace(id)
	defer func() {
		_, failed := docker(context.WithoutCancel(ctx), nil, "rm", id)
		err = errors.Join(err, failed)
	}()
	//nolint:gosec // an id that docker gave us
	cmd := exec.CommandContext(ctx, "docker", "export", id)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("reading an image: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("reading an image: %w", err)
	}
	files, err = unpack(out)
	return files, errors.Join(err, cmd.Wait())
}

func unpack(r io.Reader) (map[string]File, error) {
	files := make(map[string]File)
	for tr := tar.NewReader(r); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return files, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading an image: %w", err)
		}
		f := File{Header: h}
		if h.Typeflag == tar.TypeReg && h.Mode&0o111 != 0 && h.Size > 0 {
			b, err := io.ReadAll(tr)
			if err != nil {
				return nil, fmt.Errorf("reading %s: %w", h.Name, err)
			}
			if f.Program, err = elf.NewFile(bytes.NewReader(b)); err != nil {
				return nil, fmt.Errorf("reading the program %s: %w", h.Name, err)
			}
		}
		if !ofDocker(h.Name) {
			files[strings.TrimSuffix(h.Name, "/")] = f
		}
	}
}

// ofDocker reports whether a name is a mount point of every container.
func ofDocker(name string) bool {
	switch name {
	case ".dockerenv", "etc/", "etc/hostname", "etc/hosts", "etc/resolv.conf", "etc/mtab":
		return true
	}
	for _, dir := range []string{"dev/", "proc/", "sys/"} {
		if strings.HasPrefix(name, dir) {
			return true
		}
	}
	return false
}
