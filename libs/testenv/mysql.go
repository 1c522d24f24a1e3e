package testenv

import (
	"context"
	"database/sql"
	"testing"

	"github.com/go-sql-driver/mysql"
)

// MySQL returns the DSN (of go-sql-driver) of a new, empty database. It is removed when the test
// ends.
func MySQL(t testing.TB) (dsn string) {
	t.Helper()
	return newDatabase(t, "CARILLON_TEST_MYSQL_DSN")
}

// MySQLTLS is like MySQL with a user who must connect over TLS with a client certificate.
func MySQLTLS(t testing.TB) (dsn string, c *Certificates) {
	t.Helper()
	return newDatabase(t, "CARILLON_TEST_MYSQL_TLS_DSN"), certificates(t, "mysql")
}

// newDatabase returns the DSN of a new database for the user whom the variable names.
func newDatabase(t testing.TB, variable string) (dsn string) {
	t.Helper()
	user, err := mysql.ParseDSN(require(t, "mysql", variable))
	if err != nil {
		t.Fatalf("reading %s: %v", variable, err)
	}
	config, err := mysql.ParseDSN(require(t, "mysql", "CARILLON_TEST_MYSQL_DSN"))
	if err != nil {
		t.Fatalf("reading CARILLON_TEST_MYSQL_DSN: %v", err)
	}
	name := "carillon_" + unique()
	server := config.FormatDSN()
	execute(t, server, "CREATE DATABASE "+name+" CHARACTER SET utf8mb4")
	t.Cleanup(func() { execute(t, server, "DROP DATABASE "+name) })
	user.DBName = name
	return user.FormatDSN()
}

func execute(t testing.TB, dsn, statement string) {
	t.Helper()
	db, err := sql.Open("mysql", dsn)
	if err != nil {
		t.Fatalf("opening the database server: %v", err)
	}
	defer func() { _ = db.Close() }()
	// The test's own context has already ended during the cleanup.
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	if _, err := db.ExecContext(ctx, statement); err != nil {
		t.Errorf("%s: %v", statement, err)
	}
}
