// Command images builds the images of Carillon without a daemon: the same as deploy/Dockerfile
// does, for several architectures.
//
//	cd deploy/tools && go run ./cmd/images -root ../.. -out ../../dist/images
//
// Of each program it writes a docker archive per architecture (docker load, podman load, ctr images
// import) and an OCI archive with all of them (skopeo copy --all oci-archive:…, or push it with
// crane). The same sources with the same Go make the same bytes.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// programs are the programs that have an image: the command line tool and the five services.
var programs = []string{
	"carillon",
	"carillon-api",
	"carillon-migrator",
	"carillon-scheduler",
	"carillon-trigger",
	"carillon-executor",
}

type options struct {
	root, out, registry, version, roots string
	arches, only                        []string
	created                             time.Time
	archives                            bool
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "images:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout io.Writer) error {
	var o options
	fs := flag.NewFlagSet("images", flag.ContinueOnError)
	fs.StringVar(&o.root, "root", "../..", "root of the repository")
	fs.StringVar(&o.out, "out", "../../dist/images", "directory for the archives")
	fs.StringVar(
		&o.registry,
		"registry",
		"",
		"before each image's name, such as registry.example.com/team",
	)
	fs.StringVar(
		&o.version,
		"version",
		"dev",
		"tag of the images, and what the programs say of themselves",
	)
	fs.StringVar(
		&o.roots,
		"roots",
		"/etc/ssl/certs/ca-certificates.crt",
		"bundle of certificate authorities",
	)
	fs.BoolVar(&o.archives, "oci", true, "also write an OCI archive with all architectures")
	arches := fs.String("arch", "amd64,arm64", "architectures")
	only := fs.String("only", strings.Join(programs, ","), "programs")
	epoch := fs.Int64("created", 0, "instant of the images, in unix seconds: that of the commit")
	if err := fs.Parse(args); err != nil {
		return fmt.Errorf("reading flags: %w", err)
	}
	o.arches, o.only, o.created = strings.Split(
		*arches,
		",",
	), strings.Split(
		*only,
		",",
	), time.Unix(*epoch, 0).
		UTC()
	for _, p := range o.only {
		if !slices.Contains(programs, p) {
			return fmt.Errorf("there is no program %q: %s", p, strings.Join(programs, ", "))
		}
	}
	//nolint:gosec // other users load the images
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return fmt.Errorf("making the directory: %w", err)
	}
	return build(ctx, &o, stdout)
}

func build(ctx context.Context, o *options, stdout io.Writer) error {
	roots, err := os.ReadFile(o.roots)
	if err != nil {
		return fmt.Errorf(
			"reading the certificate authorities (Debian's package ca-certificates): %w",
			err,
		)
	}
	work, err := os.MkdirTemp("", "carillon-images-")
	if err != nil {
		return fmt.Errorf("making a directory for the programs: %w", err)
	}
	defer func() { _ = os.RemoveAll(work) }()
	made := make(map[string]map[string]v1.Image, len(o.only))
	for _, arch := range o.arches {
		bin := filepath.Join(work, arch)
		if err := compile(ctx, o, arch, bin); err != nil {
			return err
		}
		for _, program := range o.only {
			img, err := image(o, program, arch, filepath.Join(bin, program), roots)
			if err != nil {
				return fmt.Errorf("making the image of %s for %s: %w", program, arch, err)
			}
			file := filepath.Join(o.out, fmt.Sprintf("%s-%s.tar", program, arch))
			size, err := writeDocker(o, program, img, file)
			if err != nil {
				return err
			}
			fmt.Fprintf(stdout, "%s  %s  %.1f MB\n", reference(o, program), file, float64(size)/1e6)
			if made[program] == nil {
				made[program] = make(map[string]v1.Image)
			}
			made[program][arch] = img
		}
	}
	if !o.archives {
		return nil
	}
	var errs []error
	for _, program := range o.only {
		errs = append(
			errs,
			writeOCI(o, program, made[program], filepath.Join(o.out, program+".oci.tar")),
		)
	}
	return errors.Join(errs...)
}

// reference returns the image's name, as the chart forms it from its values.
func reference(o *options, program string) string {
	name := program + ":" + o.version
	if o.registry != "" {
		name = strings.TrimSuffix(o.registry, "/") + "/" + name
	}
	return name
}
