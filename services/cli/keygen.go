package cli

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/carillon-timer/carillon/libs/apikey"
	"github.com/carillon-timer/carillon/libs/config"
	"github.com/carillon-timer/carillon/libs/encryption"
	"github.com/carillon-timer/carillon/libs/process"
)

// AdminKey prints a new key for CARILLON_ADMIN_KEY.
func AdminKey(_ context.Context, args []string, _ process.Env, stdout, _ io.Writer) error {
	if err := config.NewSet("carillon admin-key").Load(args, noEnvironment, stdout); err != nil {
		return err
	}
	return printLine(stdout, apikey.New().Reveal())
}

// idLetters is how many random letters the id of a key ends with.
const idLetters = 4

// keyID are the settings of EncryptionKey.
type keyID struct{ id string }

// Register registers the settings.
func (k *keyID) Register(s *config.Set) {
	s.String(
		&k.id,
		"id",
		// keys of one minute have different ids
		time.Now().UTC().Format("k20060102-1504-")+strings.ToLower(rand.Text()[:idLetters]),
		"the key's id, which is stored with each secret encrypted under it: letters, digits, - and _",
	)
}

// Validate checks the settings.
func (k *keyID) Validate() error {
	if _, err := encryption.ParseKeyring(encryption.NewKey(k.id)); err != nil {
		return fmt.Errorf("id: %w", err)
	}
	return nil
}

// EncryptionKey prints a new key for CARILLON_ENCRYPTION_KEYS.
func EncryptionKey(_ context.Context, args []string, _ process.Env, stdout, _ io.Writer) error {
	var k keyID
	if err := config.NewSet("carillon encryption-key", &k).
		Load(args, noEnvironment, stdout); err != nil {
		return err
	}
	return printLine(stdout, encryption.NewKey(k.id).Reveal())
}

// noEnvironment is the environment of commands whose flags are not settings of services.
func noEnvironment(string) (string, bool) { return "", false }

func printLine(w io.Writer, text string) error {
	if _, err := fmt.Fprintln(w, text); err != nil {
		return fmt.Errorf("printing: %w", err)
	}
	return nil
}
