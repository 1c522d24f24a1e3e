package sqlstore_test

import (
	"bytes"
	"io/fs"
	"strings"
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

func (c *statements) watch(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sent == nil {
		c.sent = map[string]bool{}
	}
	c.sent[text] = true
}

// forms returns one statement of each form.
func (c *statements) forms() map[string]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	forms := map[string]string{}
	for text := range c.sent {
		forms[form(text)] = text
	}
	return forms
}

// form replaces each number by #, then lists of numbers and of rows by their first. It reads the
// text once: a suite sends many statements of a megabyte.
func form(text string) string {
	out := make([]byte, 0, len(text))
	open, plain := -1, false // of the present row
	end := -1                // of the row before it, if that is plain
	for i := 0; i < len(text); i++ {
		ch := text[i]
		if isDigit(ch) || ch == '-' && i+1 < len(text) && isDigit(text[i+1]) {
			for i+1 < len(text) && isDigit(text[i+1]) {
				i++
			}
			if out = append(out, '#'); bytes.HasSuffix(out, []byte("#,#")) {
				out = out[:len(out)-2]
			}
			continue
		}
		out = append(out, ch)
		switch {
		case ch == '(':
			open, plain = len(out)-1, true
		case ch == ')' && plain:
			if end >= 0 && end == open-1 && out[end] == ',' {
				out = out[:end]
			}
			end, plain = len(out), false
		case !strings.ContainsRune("#?,'_", rune(ch)) && (ch < 'a' || ch > 'z'):
			plain = false
		}
	}
	return string(out)
}

func isDigit(ch byte) bool { return ch >= '0' && ch <= '9' }

func TestForms(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"SELECT a FROM t WHERE id IN (1,-2,33) AND b<>4": "SELECT a FROM t WHERE id IN (#) AND b<>#",
		"VALUES (1,?,'x'),(2,?,'y'),(3,?,'z') ON":        "VALUES (#,?,'x') ON",
		"VALUES (1,?),(2,(SELECT 3)),(4,?),(5,?)":        "VALUES (#,?),(#,(SELECT #)),(#,?)",
		"WHERE (a,b) IN ((1,2),(3,4))":                   "WHERE (a,b) IN ((#))",
		"COALESCE(a,0),COALESCE(b,0)":                    "COALESCE(a,#),COALESCE(b,#)",
	} {
		require.Equal(t, want, form(text))
	}
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
