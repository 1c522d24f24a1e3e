//go:build !unix

package dirlock

// File is the name of the file that is locked.
const File = "LOCK"

// Lock does nothing. On systems without flock, the operator has to make sure that one process uses
// a directory.
type Lock struct{}

// Take returns a lock that excludes nobody.
func Take(string) (*Lock, error) { return &Lock{}, nil }

// Release does nothing.
func (*Lock) Release() error { return nil }
