//go:build !unix

package sqlstore

// dirLock is nothing here: on systems without flock the operator sees to it that one process uses a
// data directory.
type dirLock struct{}

func lockDir(string) (*dirLock, error) { return &dirLock{}, nil }

func (*dirLock) release() error { return nil }
