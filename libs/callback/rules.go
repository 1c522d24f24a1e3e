package callback

import (
	"fmt"
	"regexp"
	"regexp/syntax"

	lru "github.com/hashicorp/golang-lru/v2"
)

// maxProgram limits the instructions of a compiled success rule. A match takes at most that many
// steps per byte of the body, and cannot be interrupted. 64 KiB with 1000 instructions take a
// second at worst. 512 bytes of nested repetitions would compile to 84,000 instructions.
const maxProgram = 1000

// compileRule compiles a success rule. Its error says why the rule is invalid.
func compileRule(text string) (*regexp.Regexp, error) {
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
	return re, nil
}

// rules caches compiled success rules.
type rules struct {
	cache *lru.Cache[string, *regexp.Regexp]
}

func newRules() (*rules, error) {
	const room = 1024
	cache, err := lru.New[string, *regexp.Regexp](room)
	if err != nil {
		return nil, fmt.Errorf("making the cache of success rules: %w", err)
	}
	return &rules{cache}, nil
}

// get also refuses a rule that is too complex, because the definition may be older than the check.
func (r *rules) get(text string) (*regexp.Regexp, error) {
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
