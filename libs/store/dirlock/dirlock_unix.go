//go:build unix

package dirlock

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// File is the name of the file that is locked.
const File = "LOCK"

// Lock is the exclusive lock on a directory. The kernel releases it when the process ends, for any
// reason.
type Lock struct{ file *os.File }

// Take takes the lock of a directory that exists, or returns an error with the process that has it.
func Take(dir string) (*Lock, error) {
	//nolint:gosec // the operator's directory
	f, err := os.OpenFile(filepath.Join(dir, File), os.O_RDWR|os.O_CREATE, 0o640)
	if err != nil {
		return nil, fmt.Errorf("locking the directory: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		defer f.Close() // nothing was written
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("locking the directory: %w", err)
		}
		holder := make([]byte, 16)
		n, _ := f.Read(holder) // the process id only helps the reader
		return nil, fmt.Errorf(
			"the directory %s is in use by another process (pid %s): stop it, or use another directory",
			dir,
			strings.TrimSpace(string(holder[:n])),
		)
	}
	pid := strconv.Itoa(os.Getpid()) + "\n"
	if err := errors.Join(f.Truncate(0), writeAt(f, pid)); err != nil {
		return nil, errors.Join(fmt.Errorf("locking the directory: %w", err), f.Close())
	}
	return &Lock{file: f}, nil
}

func writeAt(f *os.File, text string) error {
	_, err := f.WriteAt([]byte(text), 0)
	return err //nolint:wrapcheck // wrapped above
}

// Release unlocks before it closes: a program that this process is just starting has a copy of the
// descriptor until it runs, and would keep the lock. Release keeps the file: if it were removed, two
// processes could each lock a file of that name.
func (l *Lock) Release() error {
	unlocked := syscall.Flock(int(l.file.Fd()), syscall.LOCK_UN)
	if err := errors.Join(unlocked, l.file.Close()); err != nil {
		return fmt.Errorf("unlocking the directory: %w", err)
	}
	return nil
}
