package sqlstore_test

import (
	"io/fs"
	"regexp"
	"sync"
	"testing"

	"github.com/pingcap/tidb/pkg/parser"
	_ "github.com/pingcap/tidb/pkg/parser/test_driver" // the parser needs a driver of values
	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/store/sqlstore"
)

// statements collects what a store sends. It is called in transactions, which must be quick, so
// forms are computed later.
type statements struct {
	mu   sync.Mutex
	sent map[string]bool
}

var (
	numbers = regexp.MustCompile(`-?\d+`)
	rows    = regexp.MustCompile(`(\([#?,'a-z_]*\)),(\([#?,'a-z_]*\),?)+`)
	lists   = regexp.MustCompile(`#(,#)+`)
)

func (c *statements) watch(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sent == nil {
		c.sent = map[string]bool{}
	}
	c.sent[text] = true
}

// forms returns one statement of each form. Lists of numbers and rows of any length are the same
// form.
func (c *statements) forms() map[string]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	forms := map[string]string{}
	for text := range c.sent {
		forms[rows.ReplaceAllString(lists.ReplaceAllString(numbers.ReplaceAllString(text, "#"), "#"), "$1")] = text
	}
	return forms
}

// requireMySQL8 parses every collected statement with a parser for MySQL 8. The server of the tests
// is MariaDB, which also takes other statements.
func (c *statements) requireMySQL8(t *testing.T) {
	t.Helper()
	forms := c.forms()
	require.Greater(t, len(forms), 40, "the suite sends more than that")
	for _, text := range forms {
		requireParses(t, text)
	}
	for _, text := range sqlstore.OtherStatements() {
		requireParses(t, text)
	}
}

func requireParses(t *testing.T, text string) {
	t.Helper()
	p := parser.New()
	if _, _, err := p.ParseSQL(text); err != nil {
		t.Errorf("MySQL 8 would refuse: %v\n%s", err, text)
	}
}

func TestMigrationsAreMySQL8(t *testing.T) {
	t.Parallel()
	files, err := fs.Glob(sqlstore.Migrations(), "migrations/mysql/*.sql")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, f := range files {
		text, err := fs.ReadFile(sqlstore.Migrations(), f)
		require.NoError(t, err)
		requireParses(t, string(text))
	}
}

// TestGuardSeesDialects checks that the parser refuses statements for MariaDB only.
func TestGuardSeesDialects(t *testing.T) {
	t.Parallel()
	p := parser.New()
	for _, text := range []string{
		"INSERT INTO t VALUES (1) RETURNING a", "SET STATEMENT lock_wait_timeout=1 FOR SELECT 1",
		"DELETE FROM t WHERE a=1 RETURNING a",
	} {
		_, _, err := p.ParseSQL(text)
		require.Error(t, err, text)
	}
}
