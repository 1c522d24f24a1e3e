package testenv

import (
	"bufio"
	"io"
	"os/exec"
	"strings"
	"testing"
)

// OpenID is a certified OpenID provider of others, which ends with the test. It has the client page
// ("the secret of the page"), and people sign in under any name: its part before a dash is their
// group.
type OpenID struct {
	Issuer string

	in    io.Writer
	lines *bufio.Scanner
	log   *strings.Builder
}

// StartOpenID runs the provider that scripts/oidc-oracle.sh installed. Without it the test is
// skipped, or fails where CARILLON_TEST_REQUIRE names oracles. It answers after Serve.
func StartOpenID(t testing.TB) *OpenID {
	t.Helper()
	dir := OpenIDOracles(t)
	//nolint:gosec // the script chose the directory
	cmd := exec.CommandContext(t.Context(), "node", dir+"/provider.mjs")
	p := &OpenID{log: new(strings.Builder)}
	cmd.Stderr = p.log
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatalf("starting the OpenID provider: %v", err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatalf("starting the OpenID provider: %v", err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("starting the OpenID provider: %v", err)
	}
	t.Cleanup(func() {
		_ = in.Close() // it ends
		_ = cmd.Wait()
	})
	p.in, p.lines = in, bufio.NewScanner(out)
	p.Issuer = p.await(t, "http://127.0.0.1:")
	return p
}

// Serve makes the provider sign people in to the page at an origin, such as http://127.0.0.1:8080.
func (p *OpenID) Serve(t testing.TB, origin string) {
	t.Helper()
	if _, err := io.WriteString(p.in, origin+"\n"); err != nil {
		t.Fatalf("writing to the OpenID provider: %v", err)
	}
	p.await(t, "ready")
}

// await returns the next line of output that begins with a text.
func (p *OpenID) await(t testing.TB, text string) string {
	t.Helper()
	for p.lines.Scan() {
		if strings.HasPrefix(p.lines.Text(), text) {
			return p.lines.Text()
		}
	}
	t.Fatalf("the OpenID provider has ended: %s", p.log)
	return ""
}

// OpenIDOracles returns the directory in which scripts/oidc-oracle.sh installed identity providers.
func OpenIDOracles(t testing.TB) string {
	t.Helper()
	return Oracle(t, "CARILLON_TEST_OIDC", "scripts/oidc-oracle.sh",
		"signs in by identity providers of others")
}
