package chaos

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/carillon-timer/carillon/e2e/cluster"
)

// build compiles the programs of other releases that a scenario needs, once per run.
func (o *Options) build(ctx context.Context, s *Scenario) (err error) {
	if s.Bin != nil && o.Previous == "" {
		o.Previous, err = o.buildCommit(ctx, "previous", "HEAD~1", nil)
	}
	if err == nil && s.Next && o.Next == "" {
		o.Next, err = o.buildCommit(ctx, "next", "HEAD", addMigration)
	}
	return err
}

// buildCommit compiles the programs of a commit, whose source change may edit before. It returns
// their directory.
func (o *Options) buildCommit(
	ctx context.Context, name, commit string, change func(src string) error,
) (string, error) {
	src, bin := filepath.Join(o.Dir, name+"-source"), filepath.Join(o.Dir, name)
	fmt.Fprintf(o.Log, "   compiling the %s release\n", name)
	if err := os.MkdirAll(src, 0o750); err != nil {
		return "", fmt.Errorf("compiling the %s release: %w", name, err)
	}
	unpack := `git -C "$1" archive "$2" | tar -x -C "$3"`
	//nolint:gosec // the arguments are ours
	cmd := exec.CommandContext(ctx, "sh", "-c", unpack, "sh", o.Root, commit, src)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("unpacking the %s release: %w\n%s", name, err, out)
	}
	if change != nil {
		if err := change(src); err != nil {
			return "", fmt.Errorf("changing the %s release: %w", name, err)
		}
	}
	if err := cluster.BuildAt(ctx, src, bin); err != nil {
		return "", err
	}
	return bin, nil
}

var schemaVersion = regexp.MustCompile(`(?m)^const schemaVersion = (\d+)$`)

// nextColumn is the column that the migration of the next release adds to the table of fires, which
// all services use.
const nextColumn = "next_release"

// addMigration adds a migration to the source of the store, as the next release may have one: it
// expands the schema, and programs of this release may use it.
func addMigration(src string) error {
	code, folder := "", ""
	err := filepath.WalkDir(
		filepath.Join(src, "libs", "store"),
		func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if d.IsDir() && d.Name() == "migrations" {
				folder = path
			}
			if filepath.Ext(path) != ".go" {
				return nil
			}
			b, err := os.ReadFile(path) //nolint:gosec // of a copy that only this run has
			if err == nil && schemaVersion.Match(b) {
				code = path
			}
			return err
		},
	)
	if err != nil {
		return fmt.Errorf("searching the migrations: %w", err)
	}
	b, err := os.ReadFile(code)
	if err != nil {
		return fmt.Errorf("reading the version of the schema: %w", err)
	}
	own, err := strconv.Atoi(string(schemaVersion.FindSubmatch(b)[1]))
	if err != nil {
		return fmt.Errorf("reading the version of the schema: %w", err)
	}
	next := own + 1
	b = schemaVersion.ReplaceAll(b, []byte("const schemaVersion = "+strconv.Itoa(next)))
	//nolint:gosec // the same
	if err := os.WriteFile(code, b, 0o600); err != nil {
		return fmt.Errorf("changing the version of the schema: %w", err)
	}
	for engine, how := range map[string]string{"mysql": ", ALGORITHM=INSTANT", "sqlite": ""} {
		file := filepath.Join(folder, engine, fmt.Sprintf("%05d_next.sql", next))
		text := fmt.Sprintf(
			"-- +goose Up\nALTER TABLE fires ADD COLUMN %s INT NOT NULL DEFAULT 0%s;\n"+
				"INSERT INTO schema_readers (version,min_reader) VALUES (%d,%d);\n",
			nextColumn, how, next, own,
		)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			return fmt.Errorf("adding a migration: %w", err)
		}
	}
	return nil
}

// upgradeAndBack replaces each process by one of the next release, whose first process migrates the
// schema, and then by one of this release again.
func upgradeAndBack(env *Environment) error {
	migrated := func() (n int, err error) {
		err = env.db.QueryRowContext(
			env.ctx,
			`SELECT COUNT(*) FROM information_schema.columns
			 WHERE table_schema = DATABASE() AND table_name = 'fires' AND column_name = ?`,
			nextColumn,
		).Scan(&n)
		if err != nil {
			return 0, fmt.Errorf("looking for the migration: %w", err)
		}
		return n, nil
	}
	before, err := migrated()
	if err != nil {
		return err
	}
	if before != 0 {
		return errors.New("the schema is that of the next release already")
	}
	for _, step := range []struct{ name, bin string }{
		{"rolling upgrade to a later schema", env.opts.Next},
		{"rolling return to the release before, on the later schema", env.opts.Bin},
	} {
		err := env.inject(step.name, noTarget, func(f *Fault) (string, error) {
			proof, err := env.roll(f, step.bin)
			if err != nil {
				return "", err
			}
			n, err := migrated()
			if err == nil && n != 1 {
				err = errors.New("the schema is not that of the next release")
			}
			return strings.TrimSpace(proof) + ", the schema is the later one", err
		})
		if err != nil {
			return err
		}
	}
	return nil
}
