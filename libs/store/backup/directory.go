package backup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/carillon-timer/carillon/libs/store/dirlock"
)

const newManifest = manifestFile + ".new"

// directory is a backup that is being written.
type directory struct {
	root *os.Root
	lock *dirlock.Lock
}

// openDirectory creates a directory, or takes over one whose backup was not completed: it removes
// the parts. It refuses a directory with a complete backup, and one with anything else. Of two
// processes at once, the second is refused by the lock.
func openDirectory(dir string) (_ *directory, err error) {
	if err := os.Mkdir(dir, dirMode); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("making the backup's directory: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("opening the backup's directory: %w", err)
	}
	d := &directory{root: root}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.close())
		}
	}()
	if _, err := unfinished(root, dir); err != nil { // before the lock's file is written
		return nil, err
	}
	if d.lock, err = dirlock.Take(dir); err != nil {
		return nil, err //nolint:wrapcheck // it names the directory
	}
	files, err := unfinished(root, dir)
	if err != nil {
		return nil, err
	}
	for _, name := range files {
		if name == dirlock.File {
			continue
		}
		if err := root.Remove(name); err != nil {
			return nil, fmt.Errorf("removing a backup that was not completed: %w", err)
		}
	}
	return d, nil
}

// unfinished returns the files of a backup that was not completed, or an error if the directory has
// something else.
func unfinished(root *os.Root, dir string) (files []string, err error) {
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return nil, fmt.Errorf("reading the backup's directory: %w", err)
	}
	for _, e := range entries {
		switch name := e.Name(); {
		case name == manifestFile:
			return nil, fmt.Errorf("%s has a complete backup: name another directory", dir)
		case name == newManifest, name == dirlock.File, partFile.MatchString(name):
			files = append(files, name)
		default:
			return nil, fmt.Errorf(
				"%s has a file %s, which is no part of a backup: name another directory",
				dir, name,
			)
		}
	}
	return files, nil
}

// complete writes the manifest. It is there as a whole or not at all, and after all parts.
func (d *directory) complete(m *Manifest) error {
	text, err := m.encode()
	if err != nil {
		return fmt.Errorf("writing %s: %w", manifestFile, err)
	}
	f, err := d.root.OpenFile(newManifest, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode)
	if err != nil {
		return err //nolint:wrapcheck // it names the file
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Sync(), f.Close(), d.sync()); err != nil {
		return fmt.Errorf("writing %s: %w", manifestFile, err)
	}
	if err := errors.Join(d.root.Rename(newManifest, manifestFile), d.sync()); err != nil {
		return fmt.Errorf("writing %s: %w", manifestFile, err)
	}
	// From now on the manifest keeps others out.
	if err := d.root.Remove(dirlock.File); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err //nolint:wrapcheck // it names the file
	}
	return nil
}

// sync brings the names of the files to disk.
func (d *directory) sync() error {
	f, err := d.root.Open(".")
	if err != nil {
		return err //nolint:wrapcheck // it names the file
	}
	return errors.Join(f.Sync(), f.Close())
}

func (d *directory) close() error {
	var err error
	if d.lock != nil {
		err = d.lock.Release()
	}
	return errors.Join(err, d.root.Close())
}
