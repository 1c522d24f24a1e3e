//go:build !unix

package sqliteengine

// dirLock does nothing. On systems without flock, the operator has to make sure that one process
// uses a data directory.
type dirLock struct{}

func lockDir(string) (*dirLock, error) { return &dirLock{}, nil }

func (*dirLock) release() error { return nil }
