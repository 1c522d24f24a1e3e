//go:build unix

package sqliteengine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// dirLock is the exclusive lock on a data directory. The kernel releases it when the process ends,
// for any reason.
type dirLock struct{ file *os.File }

// lockDir takes the lock, or returns an error with the process that has it.
func lockDir(dir string) (*dirLock, error) {
	//nolint:gosec // the operator's directory
	f, err := os.OpenFile(filepath.Join(dir, "LOCK"), os.O_RDWR|os.O_CREATE, 0o640)
	if err != nil {
		return nil, fmt.Errorf("locking the data directory: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		defer f.Close() // nothing was written
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("locking the data directory: %w", err)
		}
		holder := make([]byte, 16)
		n, _ := f.Read(holder) // the process id only helps the reader
		return nil, fmt.Errorf(
			"the data directory %s is in use by another process (pid %s): stop it, or use another directory",
			dir,
			strings.TrimSpace(string(holder[:n])),
		)
	}
	pid := strconv.Itoa(os.Getpid()) + "\n"
	if err := errors.Join(f.Truncate(0), writeAt(f, pid)); err != nil {
		return nil, errors.Join(fmt.Errorf("locking the data directory: %w", err), f.Close())
	}
	return &dirLock{file: f}, nil
}

func writeAt(f *os.File, text string) error {
	_, err := f.WriteAt([]byte(text), 0)
	return err //nolint:wrapcheck // wrapped above
}

// release keeps the file: if it were removed, two processes could each lock a file of that name.
func (l *dirLock) release() error { return l.file.Close() } //nolint:wrapcheck // it names the file
