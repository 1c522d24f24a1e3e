package api_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/carillon-timer/carillon/libs/testenv"
)

// startKeycloak runs a Keycloak with a realm of its own, in memory, and waits until it serves. Its
// files are in the directory of the test.
func startKeycloak(t *testing.T, page string) *oracleProvider {
	t.Helper()
	installed := filepath.Join(testenv.OpenIDOracles(t), "keycloak")
	home := t.TempDir()
	for _, folder := range []string{"conf", "lib", "providers", "themes"} {
		require.NoError(t, os.Symlink(
			filepath.Join(installed, folder), filepath.Join(home, folder)))
	}
	// The program takes the directory above its own for its home.
	program, err := os.ReadFile(filepath.Join(installed, "bin", "kc.sh"))
	require.NoError(t, err)
	require.NoError(t, os.Mkdir(filepath.Join(home, "bin"), 0o750))
	require.NoError(t, os.WriteFile(filepath.Join(home, "bin", "kc.sh"), program, 0o600))
	realm, err := json.Marshal(keycloakRealm(page))
	require.NoError(t, err)
	imports := filepath.Join(home, "data", "import")
	require.NoError(t, os.MkdirAll(imports, 0o750))
	require.NoError(t, os.WriteFile(filepath.Join(imports, "realm.json"), realm, 0o600))

	began := time.Now()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 5*time.Minute)
	cmd := exec.CommandContext(ctx, "bash", filepath.Join(home, "bin", "kc.sh"),
		"start", "--optimized", "--import-realm", "--cache=local", "--http-enabled=true",
		"--http-host=127.0.0.1", "--http-port=0", "--hostname-strict=false")
	cmd.Env = append(os.Environ(), "JAVA_OPTS=-Xms64m -Xmx320m -XX:MaxMetaspaceSize=256m "+
		"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	cmd.Stderr = cmd.Stdout
	require.NoError(t, cmd.Start())
	address, log := make(chan string, 1), new(strings.Builder)
	go func() {
		defer close(address)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			_, at, listens := strings.Cut(lines.Text(), "Listening on: ")
			if listens {
				at, _, _ = strings.Cut(at, " ")
				address <- strings.TrimSuffix(at, ".")
			}
			log.WriteString(lines.Text() + "\n")
		}
	}()
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // its data is in memory
		for range address {
		}
		_ = cmd.Wait()
		cancel()
	})
	at, listens := <-address
	require.True(t, listens, log)
	t.Logf("Keycloak served after %s", time.Since(began).Round(time.Millisecond))
	return &oracleProvider{
		issuer: at + "/realms/carillon",
		scopes: []string{"openid", "profile"},
		tokenRequest: func(audience string) (client, secret string, form url.Values) {
			return "job-for-" + audience, "the secret of the job", url.Values{}
		},
	}
}

type object map[string]any

// keycloakRealm returns a realm with the people and clients that the suite expects.
func keycloakRealm(page string) object {
	mapper := func(name, kind string, config object) object {
		config["access.token.claim"] = "true"
		return object{
			"name": name, "protocol": "openid-connect", "protocolMapper": kind, "config": config,
		}
	}
	groups := func() object {
		return mapper("groups", "oidc-group-membership-mapper", object{
			"claim.name": "groups", "full.path": "false", "id.token.claim": "true",
		})
	}
	realm := object{"realm": "carillon", "enabled": true, "sslRequired": "none"}
	var users, inGroups []object
	for _, name := range []string{"oncall-ada", "stranger-eve"} {
		group, _, _ := strings.Cut(name, "-")
		inGroups = append(inGroups, object{"name": group})
		users = append(users, object{
			"username": name, "enabled": true, "emailVerified": true,
			"firstName": "the", "lastName": name, "email": name + "@example.com",
			"credentials": []object{{"type": "password", "value": "x"}},
			"groups":      []string{"/" + group},
		})
	}
	clients := []object{{
		"clientId": "page", "secret": "the secret of the page",
		"redirectUris": []string{page + "/ui/sign-in/callback"},
		"attributes": object{
			"pkce.code.challenge.method": "S256",
			"post.logout.redirect.uris":  page + "/ui/sign-in",
		},
		"protocolMappers": []object{groups()},
	}}
	for _, audience := range []string{"carillon", "another"} {
		name := "job-for-" + audience
		clients = append(clients, object{
			"clientId": name, "secret": "the secret of the job",
			"serviceAccountsEnabled": true, "standardFlowEnabled": false,
			"protocolMappers": []object{groups(), mapper("audience", "oidc-audience-mapper",
				object{"included.custom.audience": audience})},
		})
		users = append(users, object{
			"username": "service-account-" + name, "serviceAccountClientId": name,
			"enabled": true, "groups": []string{"/oncall"},
		})
	}
	realm["users"], realm["groups"], realm["clients"] = users, inGroups, clients
	return realm
}
