package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"
)

// maxTypingErrors is how far from a setting a name is taken for that setting, although its beginning
// is that of tools.
const maxTypingErrors = 2

// Variables that begin with CARILLON_ and are not settings of a Part.
var (
	// otherVariables are read by every Set, and by commands that call the API.
	otherVariables = []string{
		"CONFIG", "PRINT_CONFIG", "API_KEY", "API", "APP", "CONTEXT", "CONTEXTS_FILE",
	}
	// toolVariables are those of scripts and tests, which the programs they start may get from
	// the environment. Variables with a prefix of toolPrefixes belong to them too, unless they are
	// within maxTypingErrors of a setting.
	toolVariables = []string{
		"ACTIVE_HELP", // of cobra: the completion scripts of fish and PowerShell set it
		"BIN",
		"CACHE",
		"CHECK_REQUIRE",
		"COMPLETION_DESCRIPTIONS", // of cobra, for users
		"COMPOSE_ENGINE",
		"FAKE",
		"GRAFANA",
		"ISOLATION",
		"KUBE_STATE",
		"PORT",
		"REAL_DIR",
		"REDIS_CLUSTER_ADDRS",
		"SERVERS_ADDR",
	}
	toolPrefixes = []string{"TEST_", "E2E_"}
	// Kubernetes sets variables with the addresses of services. For one named carillon-api they are
	// CARILLON_API_SERVICE_HOST, CARILLON_API_PORT_8080_TCP and others.
	serviceLink = regexp.MustCompile(
		`^(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)$`,
	)
	serviceURL = regexp.MustCompile(`^(\w+_)?PORT=(tcp|udp|sctp)://`)
)

// CheckEnv searches an environment, as os.Environ returns it, for unknown variables that begin with
// CARILLON_. It returns *Problems with the nearest known name for each, or nil.
func CheckEnv(environ []string) error {
	known := slices.Clone(otherVariables)
	for name := range allNames() {
		known = append(known, strings.ToUpper(strings.ReplaceAll(name, "-", "_")))
	}
	slices.Sort(known)
	problems := &Problems{}
	for _, pair := range environ {
		pair, ours := strings.CutPrefix(pair, EnvPrefix)
		name, _, _ := strings.Cut(pair, "=")
		if !ours || slices.Contains(known, name) {
			continue
		}
		nearest, distance := nearestOf(known, strings.ToUpper(name))
		if exempt(name, pair, distance) {
			continue
		}
		problems.List = append(
			problems.List,
			fmt.Sprintf(
				"%s%s: no such setting; the nearest is %s%s: correct the name, or unset it",
				EnvPrefix,
				name,
				EnvPrefix,
				nearest,
			),
		)
	}
	if len(problems.List) == 0 {
		return nil
	}
	slices.Sort(problems.List)
	return problems
}

// nearestOf returns the known name that is nearest to a name, and its distance.
func nearestOf(known []string, name string) (nearest string, distance int) {
	nearest = slices.MinFunc(known, func(a, b string) int {
		return levenshtein.ComputeDistance(name, a) - levenshtein.ComputeDistance(name, b)
	})
	return nearest, levenshtein.ComputeDistance(name, nearest)
}

// exempt returns whether a variable belongs to another program. distance is that to the nearest
// setting.
func exempt(name, pair string, distance int) bool {
	return slices.Contains(toolVariables, name) || serviceLink.MatchString(name) ||
		serviceURL.MatchString(pair) ||
		distance > maxTypingErrors && slices.ContainsFunc(
			toolPrefixes, func(p string) bool { return strings.HasPrefix(name, p) })
}
