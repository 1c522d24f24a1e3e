//go:build unix

package dirlock

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestReleaseWithACopyOfTheDescriptor holds a copy, as a program that is just being started does.
func TestReleaseWithACopyOfTheDescriptor(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	lock, err := Take(dir)
	require.NoError(t, err)
	_, err = Take(dir)
	require.ErrorContains(t, err, "in use by another process")
	held, err := syscall.Dup(int(lock.file.Fd()))
	require.NoError(t, err)
	defer func() { require.NoError(t, syscall.Close(held)) }()
	require.NoError(t, lock.Release())
	again, err := Take(dir)
	require.NoError(t, err)
	require.NoError(t, again.Release())
}
