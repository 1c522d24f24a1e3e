package callback

import (
	"context"
	"fmt"
	"regexp"
	"regexp/syntax"
	"runtime"

	lru "github.com/hashicorp/golang-lru/v2"
)

// maxProgram limits the instructions of a compiled success rule. A match takes at most that many
// steps per byte of the body, and cannot be interrupted. 64 KiB with 1000 instructions take a
// second at worst. 512 bytes of nested repetitions would compile to 84,000 instructions.
const maxProgram = 1000

// cheapSteps is how many steps a match may take without waiting for its turn: 15 ms at worst.
const cheapSteps = 1 << 20

// rule is a compiled success rule.
type rule struct {
	*regexp.Regexp

	size int // instructions
}

// compileRule compiles a success rule. Its error says why the rule is invalid.
func compileRule(text string) (*rule, error) {
	tree, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, fmt.Errorf("is not a regular expression: %w", err)
	}
	program, err := syntax.Compile(tree.Simplify())
	if err != nil {
		return nil, fmt.Errorf("is not a regular expression: %w", err)
	}
	if n := len(program.Inst); n > maxProgram {
		return nil, fmt.Errorf(
			"compiles to %d instructions, at most %d are allowed: repeat less",
			n,
			maxProgram,
		)
	}
	re, err := regexp.Compile(text)
	if err != nil {
		return nil, fmt.Errorf("is not a regular expression: %w", err)
	}
	return &rule{re, len(program.Inst)}, nil
}

// rules caches compiled success rules, and limits how many expensive ones match at once: to half of
// the CPUs, so that the rest of the process goes on.
type rules struct {
	cache *lru.Cache[string, *rule]
	turns chan struct{} // holds one value for each expensive match
}

func newRules() (*rules, error) {
	const room = 1024
	cache, err := lru.New[string, *rule](room)
	if err != nil {
		return nil, fmt.Errorf("making the cache of success rules: %w", err)
	}
	return &rules{cache, make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2))}, nil
}

// get also refuses a rule that is too complex, because the definition may be older than the check.
func (r *rules) get(text string) (*rule, error) {
	if re, ok := r.cache.Get(text); ok {
		return re, nil
	}
	re, err := compileRule(text)
	if err != nil {
		return nil, fmt.Errorf("success.body %w", err)
	}
	r.cache.Add(text, re)
	return re, nil
}

// match returns whether a rule matches a body. Its error is that of ctx, which ended before the turn
// of an expensive match came. If there is room, a match is made though ctx has ended: the body may
// have broken off by that, and a part of it be enough.
func (r *rules) match(ctx context.Context, re *rule, body []byte) (bool, error) {
	if re.size*len(body) <= cheapSteps {
		return re.Match(body), nil
	}
	select {
	case r.turns <- struct{}{}:
	default:
		select {
		case r.turns <- struct{}{}:
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
	defer func() { <-r.turns }()
	return re.Match(body), nil
}
