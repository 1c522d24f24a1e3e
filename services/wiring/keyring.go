package wiring

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/carillon-timer/carillon/libs/config"
	"github.com/carillon-timer/carillon/libs/encryption"
)

// readCallbackSettings reads what API and executors share: the keys of secrets, and what may be called.
func (k *Kit) readCallbackSettings() (err error) {
	if k.Keyring, err = k.Settings.Encryption.Keyring(); err != nil {
		return err
	}
	if k.Topics, err = k.Settings.Callback.AllowedTopics(); err != nil {
		return err
	}
	c := &k.Settings.Callback
	c.OwnListeners, c.LoopbackByDefault = &k.OwnListeners, k.Settings.keyless()
	if k.Egress, err = c.Policy(); err != nil {
		return err
	}
	switch {
	case c.AllowPrivate == config.Yes:
		k.Log.Warn().
			Msg("timers may call loopback and private addresses, and any port (callback-allow-private)")
	case c.AllowsLoopback():
		k.Log.Info().
			Msg("timers may call this machine, any port (callback-allow-private opens private networks as well)")
	}
	return nil
}

// keyringFile is where an embedded deployment keeps a encryption key that nobody gave it. A copy of
// the data directory has it, too: it protects what is taken out of the database, and not the
// directory.
const keyringFile = "sealing.keys"

// loadOrCreateKeyring returns the ring of a data directory, and makes it the first time. The directory is
// locked: no other process does so at once. A process that dies meanwhile leaves none or all of it;
// and so does a machine, for it is on the disk before anything is sealed under it: the database
// outlives a power cut, and would hold secrets that nobody can open.
func loadOrCreateKeyring(dir string) (*encryption.Keyring, error) {
	path := filepath.Join(dir, keyringFile)
	r, err := encryption.LoadKeyring(path)
	if err == nil {
		return r, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	text := "# Secrets in the database beside this file are encrypted under this key.\n" + encryption.NewKey("dev").
		Reveal() +
		"\n"
	temporary := path + ".new"
	if err := writeSynced(temporary, text); err != nil {
		return nil, fmt.Errorf("keeping a sealing key: %w", err)
	}
	if err := os.Rename(temporary, path); err != nil {
		return nil, fmt.Errorf("keeping a sealing key: %w", err)
	}
	if err := syncDir(dir); err != nil {
		return nil, fmt.Errorf("keeping a sealing key: %w", err)
	}
	return encryption.LoadKeyring(path)
}

// writeSynced writes a file that nobody else may read. It is on the disk when keep returns; its name is
// when the directory is, too.
func writeSynced(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Sync(), f.Close())
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
