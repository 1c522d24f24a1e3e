package sqlstore_test

import (
	"crypto/tls"
	"testing"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/certfile"
	"github.com/carillon-timer/carillon/libs/store/sqlstore"
	"github.com/carillon-timer/carillon/libs/testenv"
	"github.com/carillon-timer/carillon/libs/timer"
)

// TestDatabaseTLS connects as a user who must show a certificate, and replaces the files of the
// client.
func TestDatabaseTLS(t *testing.T) {
	t.Parallel()
	dsn, files := testenv.MySQLTLS(t)
	open := func(f certfile.Files) *sqlstore.Store {
		client, err := certfile.LoadClient("mysql-tls", f, zerolog.Nop())
		require.NoError(t, err)
		s, err := sqlstore.OpenMySQL(
			t.Context(),
			sqlstore.MySQLOptions{DSN: dsn, TLS: client.Config, Logger: zerolog.Nop()},
		)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, s.Close()) })
		return s
	}
	s := open(files.Files)
	require.NoError(t, s.Migrate(t.Context()))
	require.NoError(t, s.Ping(t.Context()))
	require.ErrorContains(
		t,
		open(certfile.Files{CA: files.CA}).Ping(t.Context()),
		"Access denied",
		"without a certificate",
	)

	// Each of these stores connects for the first time after its files have changed.
	s = open(files.Files)
	files.InstallWrongPair(t)
	require.Error(t, s.Ping(t.Context()))
	files.InstallRight(t)
	require.NoError(t, s.Ping(t.Context()), "the certificate was replaced")

	s = open(files.Files)
	files.InstallWrongAuthority(t)
	err := s.Ping(t.Context())
	var untrusted *tls.CertificateVerificationError
	require.ErrorAs(t, err, &untrusted)
	require.Equal(t, timer.CodeUnavailable, timer.CodeOf(err), "it comes right by itself")
	files.InstallRight(t)
	require.NoError(t, s.Ping(t.Context()), "the authority was replaced")
}

func TestDatabaseTLSContradictions(t *testing.T) {
	t.Parallel()
	for dsn, want := range map[string]string{
		"u:p@tcp(h:1)/d?tls=true": "tls= in it contradicts mysql-tls",
		"u:p@unix(/socket)/d":     "mysql-tls needs tcp(host:port)",
	} {
		_, err := sqlstore.OpenMySQL(
			t.Context(),
			sqlstore.MySQLOptions{DSN: dsn, TLS: func() *tls.Config { return nil }},
		)
		require.ErrorContains(t, err, want)
	}
}
