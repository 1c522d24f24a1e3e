package config

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/carillon-timer/carillon/libs/timer"
)

// EnvPrefix begins every setting's name in the environment.
const EnvPrefix = "CARILLON_"

// ErrDone reports that a flag (-print-config, -help) printed text instead of running the program,
// which then exits with code 0.
var ErrDone = errors.New("done")

// Problems are all problems of the settings.
//
//nolint:errname // a list of problems, and the error that they are together
type Problems struct{ List []string }

func (p *Problems) Error() string { return strings.Join(p.List, "\n") }

// Problem returns an error about a setting, which it names, as *Problems: for what only the use of
// the setting shows. nil stays nil.
func Problem(err error) error {
	if err == nil {
		return nil
	}
	return &Problems{List: []string{err.Error()}}
}

// Part is a component's settings.
type Part interface {
	// Register registers the settings and stores their defaults in the struct.
	Register(s *Set)
	// Validate returns all problems of the values, joined.
	Validate() error
}

// Set is the settings of one program.
type Set struct {
	program string
	flags   *flag.FlagSet
	parts   []part
	values  map[string]*value
	ignored map[string]string // settings of other programs, with the source that has each
	adding  *part             // that registers its settings
}

// part is a Part with its own settings.
type part struct {
	Part

	values []*value
}

// validate returns the problems of a part. It needs all of the part's settings.
func (p *part) validate() []string {
	bad := func(v *value) bool { return v.err != nil }
	if slices.ContainsFunc(p.values, bad) {
		return nil
	}
	if err := p.Validate(); err != nil {
		return strings.Split(err.Error(), "\n")
	}
	return nil
}

// value is one setting. It takes text from several sources. A bad value is kept as a problem, so
// that the others are still checked.
type value struct {
	name   string
	parse  func(string) error
	show   func() string
	isBool bool
	source string // of the current value
	text   string
	err    error
}

func (v *value) String() string {
	if v == nil || v.show == nil {
		return ""
	}
	return v.show()
}

// IsBoolFlag lets -flag mean -flag=true.
func (v *value) IsBoolFlag() bool { return v.isBool }

// Set stores a value from the command line.
func (v *value) Set(text string) error {
	v.take(text, "flag -"+v.name)
	return nil
}

// take stores a value. The latest source wins, so a bad value that a later source overrides is not
// a problem.
func (v *value) take(text, source string) { v.text, v.source = text, source }

func (v *value) apply() {
	if v.source != "" {
		v.err = v.parse(v.text)
	}
}

// Given reports whether a source has a value for a setting, so that it is not the default's.
func (s *Set) Given(name string) bool {
	v := s.values[name]
	return v != nil && v.source != ""
}

// IsBool reports whether a setting is true as a flag without a value, so that the argument after the
// flag is not its value.
func (s *Set) IsBool(name string) bool {
	v := s.values[name]
	return v != nil && v.isBool
}

// Ignored returns the source of a setting of other programs, or "" if no source has it. Programs
// share files and environments, so such a setting is no problem.
func (s *Set) Ignored(name string) (source string) { return s.ignored[name] }

// NewSet returns the settings of a program with the given parts.
func NewSet(program string, parts ...Part) *Set {
	s := &Set{
		program: program,
		flags:   flag.NewFlagSet(program, flag.ContinueOnError),
		values:  make(map[string]*value),
		ignored: make(map[string]string),
	}
	s.flags.SetOutput(io.Discard)
	for _, p := range parts {
		s.Add(p)
	}
	return s
}

// Add adds one more part.
func (s *Set) Add(p Part) {
	outer := s.adding
	s.adding = &part{Part: p}
	p.Register(s)
	s.parts = append(s.parts, *s.adding)
	if outer != nil { // a part of another
		outer.values = append(outer.values, s.adding.values...)
	}
	s.adding = outer
}

// String registers a text setting.
func (s *Set) String(to *string, name, def, usage string) { text(s, to, name, def, usage) }

// Secret registers a setting that is never shown.
func (s *Set) Secret(to *Secret, name, usage string) { text(s, to, name, "", usage) }

// DSN registers a setting that is shown without its password.
func (s *Set) DSN(to *DSN, name, def, usage string) { text(s, to, name, def, usage) }

func text[T ~string](s *Set, to *T, name, def, usage string) {
	*to = T(def)
	s.add(&value{
		name:  name,
		parse: func(v string) error { *to = T(v); return nil },
		show:  func() string { return fmt.Sprint(*to) },
	}, usage)
}

// Bool registers a boolean.
func (s *Set) Bool(to *bool, name string, def bool, usage string) {
	*to = def
	s.add(&value{
		name: name, isBool: true,
		parse: func(v string) (err error) {
			if *to, err = strconv.ParseBool(v); err != nil {
				return fmt.Errorf("%q is neither true nor false", v)
			}
			return nil
		},
		show: func() string { return strconv.FormatBool(*to) },
	}, usage)
}

// Int registers an integer.
func (s *Set) Int(to *int, name string, def int, usage string) {
	*to = def
	s.add(&value{
		name: name,
		parse: func(v string) (err error) {
			if *to, err = strconv.Atoi(v); err != nil {
				return fmt.Errorf("%q is not a whole number", v)
			}
			return nil
		},
		show: func() string { return strconv.Itoa(*to) },
	}, usage)
}

// Duration registers a duration.
func (s *Set) Duration(to *time.Duration, name string, def time.Duration, usage string) {
	*to = def
	s.add(&value{
		name: name,
		parse: func(v string) (err error) {
			d, err := timer.ParseDuration(v)
			if err != nil {
				return fmt.Errorf("%q is not a duration such as 90s, 1h30m or 7d", v)
			}
			*to = time.Duration(d)
			return nil
		},
		show: func() string { return to.String() },
	}, usage)
}

func (s *Set) add(v *value, usage string) {
	s.values[v.name] = v
	if s.adding != nil {
		s.adding.values = append(s.adding.values, v)
	}
	s.flags.Var(v, v.name, usage)
}

// Load reads every source. It returns *Problems, or ErrDone after writing the requested text to
// stdout.
func (s *Set) Load(args []string, env func(string) (string, bool), stdout io.Writer) error {
	var file string
	var show bool
	s.String(&file, "config", "", "YAML file with settings")
	s.Bool(&show, "print-config", false, "print the settings in force and exit")

	problems := &Problems{}
	if err := s.flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		s.usage(stdout)
		return ErrDone
	} else if err != nil {
		problems.List = append(problems.List, s.program+": "+err.Error()+" (-help lists the flags)")
	} else if s.flags.NArg() > 0 {
		problems.List = append(problems.List, s.unexpected(args))
	}
	s.takeEnv(env)
	s.values["config"].apply()
	if file != "" {
		problems.List = append(problems.List, s.takeFile(file)...)
	}
	problems.List = append(problems.List, s.check()...)
	if len(problems.List) > 0 {
		return problems
	}
	if show {
		s.print(stdout)
		return ErrDone
	}
	return nil
}

// unexpected describes an argument that is no flag. A flag that is true without a value takes none
// from the next argument, so a value there is the likely mistake.
func (s *Set) unexpected(args []string) string {
	what := fmt.Sprintf("%s: unexpected argument %q", s.program, s.flags.Arg(0))
	if at := len(args) - s.flags.NArg(); at > 0 {
		name, isFlag := strings.CutPrefix(args[at-1], "-")
		name = strings.TrimPrefix(name, "-")
		if isFlag && s.IsBool(name) {
			return fmt.Sprintf("%s: write -%s=%s", what, name, s.flags.Arg(0))
		}
	}
	return what + " (-help lists the flags)"
}

// takeEnv gives the environment's value to each setting without a flag. An empty variable counts as
// unset.
func (s *Set) takeEnv(env func(string) (string, bool)) {
	given := func(name string) (text, source string) {
		key := EnvPrefix + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
		text, _ = env(key)
		return text, "environment " + key
	}
	for name, v := range s.values {
		if text, source := given(name); text != "" && v.source == "" {
			v.take(text, source)
		}
	}
	for name := range allNames() {
		if text, source := given(name); text != "" && s.values[name] == nil {
			s.ignored[name] = source
		}
	}
}

func (s *Set) takeFile(path string) []string {
	data, err := os.ReadFile(path)
	if err != nil {
		return []string{"reading settings: " + err.Error()}
	}
	pairs, err := flatten(data)
	if err != nil {
		return []string{fmt.Sprintf("reading settings from %s: %v", path, err)}
	}
	known := allNames()
	var problems []string
	for i := range pairs {
		p := &pairs[i]
		if i > 0 {
			if err := p.twice(&pairs[i-1]); err != nil {
				problems = append(problems, fmt.Sprintf("%s: %v", path, err))
				continue
			}
		}
		v := s.values[p.name]
		switch {
		case v == nil && !known[p.name] || p.name == "config" || p.name == "print-config":
			problems = append(problems, fmt.Sprintf("%s: unknown setting %q", path, p.name))
		case v == nil && s.ignored[p.name] == "":
			s.ignored[p.name] = "file " + path
		case v != nil && v.source == "":
			v.take(p.text, "file "+path)
		}
	}
	return problems
}

// check parses every value, and validates the parts whose own values are valid.
func (s *Set) check() []string {
	var problems []string
	for _, name := range s.names() {
		v := s.values[name]
		if v.apply(); v.err != nil {
			problems = append(problems, fmt.Sprintf("%s (%s): %v", name, v.source, v.err))
		}
	}
	for i := range s.parts {
		problems = append(problems, s.parts[i].validate()...)
	}
	return problems
}

func (s *Set) print(w io.Writer) {
	for _, v := range s.Values() {
		fmt.Fprintf(w, "%s: %q # %s\n", v.Name, v.Text, v.Source)
	}
}

// Value is a setting in force. Its text is without secrets.
type Value struct{ Name, Text, Source string }

// Values returns the settings in force by name, after Load.
func (s *Set) Values() (all []Value) {
	for _, name := range s.names() {
		if name == "config" || name == "print-config" {
			continue
		}
		v := s.values[name]
		source := v.source
		if source == "" {
			source = "default"
		}
		all = append(all, Value{name, v.show(), source})
	}
	return all
}

func (s *Set) usage(w io.Writer) {
	fmt.Fprintf(
		w,
		"%s: each flag can also be set by environment (%sHTTP_ADDR for -http-addr) or by a YAML file\n\n",
		s.program,
		EnvPrefix,
	)
	s.flags.SetOutput(w)
	s.flags.PrintDefaults()
	s.flags.SetOutput(io.Discard)
}

func (s *Set) names() []string {
	names := make([]string, 0, len(s.values))
	for name := range s.values {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
