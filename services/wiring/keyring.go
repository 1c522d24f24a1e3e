package wiring

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/carillon-timer/carillon/libs/config"
	"github.com/carillon-timer/carillon/libs/encryption"
	"github.com/carillon-timer/carillon/libs/store"
)

// readCallbackSettings reads the settings that API and executors share: the keyring, and the rules
// for callbacks.
func (k *Kit) readCallbackSettings() (err error) {
	if k.Keyring, err = k.Settings.Encryption.Keyring(); err != nil {
		return err
	}
	if k.Topics, err = k.Settings.Callback.AllowedTopics(); err != nil {
		return err
	}
	c := &k.Settings.Callback
	if err := c.CheckOwnPulsar(k.Settings.Pulsar.URL); err != nil {
		return err
	}
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

// keyringFile is where an embedded deployment stores the encryption key that it creates. A copy of
// the data directory includes it. It protects data taken from the database, not the directory.
const keyringFile = "sealing.keys"

// loadOrCreateKeyring loads the keyring of a data directory. It creates one if the directory's
// database has no secrets. If it has, they need the missing keys, which may still be found, so that
// is an error. The directory is locked, so no other process does so at once. After a crash of the
// process or the machine the file is either missing or complete. It is on disk before anything is
// encrypted with it, so no stored secret ever lacks its key.
func loadOrCreateKeyring(
	ctx context.Context,
	dir string,
	st store.Resealer,
) (*encryption.Keyring, error) {
	path := filepath.Join(dir, keyringFile)
	r, err := encryption.LoadKeyring(path)
	if err == nil {
		return r, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	definitions, _, err := st.SealedVersions(ctx, store.VersionKey{}, 1)
	if err != nil {
		return nil, fmt.Errorf("looking for secrets: %w", err)
	}
	keys, err := st.AllSigningKeys(ctx, 0, 1)
	if err != nil {
		return nil, fmt.Errorf("looking for signing keys: %w", err)
	}
	if len(definitions)+len(keys) > 0 {
		return nil, config.Problem(fmt.Errorf(
			"%s is missing, and the database beside it has secrets that only its keys open: "+
				"put the file back, or give its keys by encryption-keys-file. If they are lost, make "+
				"new ones (carillon encryption-key > %s) and enter the secrets again",
			path, path,
		))
	}
	text := "# Secrets in the database beside this file are encrypted under this key.\n" + encryption.NewKey("dev").
		Reveal() +
		"\n"
	temporary := path + ".new"
	if err := writeSynced(temporary, text); err != nil {
		return nil, fmt.Errorf("storing an encryption key: %w", err)
	}
	if err := os.Rename(temporary, path); err != nil {
		return nil, fmt.Errorf("storing an encryption key: %w", err)
	}
	if err := syncDir(dir); err != nil {
		return nil, fmt.Errorf("storing an encryption key: %w", err)
	}
	return encryption.LoadKeyring(path)
}

// writeSynced writes a file that only its owner can read, and syncs it to disk. The file's name is
// on disk once the directory is synced too.
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
