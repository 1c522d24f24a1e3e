package importer

import (
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// arg is a word of a command, without its quotes.
type arg struct {
	text string
	why  string // why nobody knows the text before the command runs; "" if it is known
}

// step is one command of a shell's command line.
type step struct {
	stmt     *syntax.Stmt
	operator string // before it, such as "&&" or "|"; "" for the first
}

// script is a command line.
type script struct {
	text string
	lang syntax.LangVariant
	env  *environment
}

// shell converts a command line that makes one call. It returns the URL that it calls, or the name of
// the program if that is not known. If the timer cannot make the call, why says so. Without a call,
// both are empty.
func (e *entry) shell(command, stdin string, env *environment) (called, why string) {
	s := script{text: command, lang: syntax.LangPOSIX, env: env}
	if path.Base(env.vars["SHELL"]) == "bash" {
		s.lang = syntax.LangBash
	}
	file, err := syntax.NewParser(syntax.Variant(s.lang)).Parse(strings.NewReader(command), "")
	if err != nil {
		return "", "the shell cannot read it: " + err.Error()
	}
	all := steps(file.Stmts, "")
	at := slices.IndexFunc(all, func(one step) bool { return isCall(s.args(one.stmt)) })
	if at < 0 {
		return "", ""
	}
	words := s.args(all[at].stmt)
	args, limits := unwrap(words)
	r := newRequest(args[0].text, stdin)
	r.limit(limits)
	for _, w := range words[:len(words)-len(args)] {
		switch path.Base(w.text) {
		case "flock":
			r.notef("flock is left out: concurrency.policy is for calls while one is not done")
		case "sudo":
			r.notef("sudo is left out: a timer's call has no user")
		}
	}
	r.read(args[1:])
	s.around(&r, all, at)
	return r.finish(e)
}

// around looks at what stands in the command line around the call.
func (s *script) around(r *request, all []step, at int) {
	one := all[at].stmt
	if all[at].operator == "|" || all[at].operator == "|&" {
		r.refusef("it reads the output of another command")
	}
	if one.Negated {
		r.refusef("it has a !")
	}
	for i := range all {
		args := s.args(all[i].stmt)
		before := i < at
		switch {
		case i == at:
		case s.calls(all[i].stmt):
			r.refusef("it makes several calls: give each a timer of its own")
		case before && !has(args, "true", ":", "cd", "umask", "set", "ulimit"):
			r.refusef("%q runs before it", strings.TrimRight(s.source(all[i].stmt), " ;&"))
		}
	}
	rest := all[at+1:]
	if slices.ContainsFunc(rest, func(one step) bool {
		return !has(s.args(one.stmt), "true", ":", "exit")
	}) {
		text := strings.TrimSpace(s.text[one.End().Offset():])
		r.notef("what follows the call in the shell is left out: %s", text)
	}
	for _, to := range one.Redirs {
		file := s.source(to.Word)
		switch {
		case to.Op == syntax.DplOut && strings.Trim(file, "0123456789-") == "": // 2>&1
		case slices.Contains(outputs, to.Op):
			r.output(file)
		case file != devNull:
			r.refusef("it reads %s", file)
		}
	}
	if c, ok := one.Cmd.(*syntax.CallExpr); ok {
		for _, a := range c.Assigns {
			r.notef("the variable %s is left out: a timer's call has no environment", a.Name.Value)
		}
	}
}

const devNull = "/dev/null"

// outputs are the operators that write to a file.
var outputs = []syntax.RedirOperator{
	syntax.RdrOut, syntax.AppOut, syntax.RdrClob, syntax.AppClob, syntax.RdrAll, syntax.RdrAllClob,
	syntax.AppAll, syntax.AppAllClob, syntax.DplOut,
}

// steps returns the commands of a command line in their order.
func steps(stmts []*syntax.Stmt, operator string) []step {
	var all []step
	for i, s := range stmts {
		if i > 0 {
			operator = ";"
		}
		all = append(all, stepsOf(s, operator)...)
	}
	return all
}

func stepsOf(s *syntax.Stmt, operator string) []step {
	if !s.Negated && len(s.Redirs) == 0 {
		switch c := s.Cmd.(type) {
		case *syntax.BinaryCmd:
			return append(stepsOf(c.X, operator), stepsOf(c.Y, c.Op.String())...)
		case *syntax.Subshell:
			return steps(c.Stmts, operator)
		case *syntax.Block:
			return steps(c.Stmts, operator)
		}
	}
	return []step{{s, operator}}
}

// source returns a part of the command line.
func (s *script) source(n syntax.Node) string {
	return s.text[n.Pos().Offset():n.End().Offset()]
}

// args returns the words of a simple command; nil if it is another.
func (s *script) args(stmt *syntax.Stmt) []arg {
	c, ok := stmt.Cmd.(*syntax.CallExpr)
	if !ok {
		return nil
	}
	all := make([]arg, len(c.Args))
	for i, w := range c.Args {
		all[i] = s.arg(w)
	}
	return all
}

// calls reports whether a call is anywhere in a command.
func (s *script) calls(stmt *syntax.Stmt) bool {
	found := false
	syntax.Walk(stmt, func(n syntax.Node) bool {
		if one, ok := n.(*syntax.Stmt); ok {
			args := s.args(one)
			others := has(args, "xargs", "sudo", "flock", "setsid", "parallel")
			found = found || isCall(args) || others && slices.ContainsFunc(args, isProgram)
		}
		return !found
	})
	return found
}

// isCall reports whether a command makes a call.
func isCall(args []arg) bool {
	args, _ = unwrap(args)
	return has(args, "curl", "wget")
}

func isProgram(a arg) bool { return has([]arg{a}, "curl", "wget") }

// has reports whether a command runs one of the programs.
func has(args []arg, programs ...string) bool {
	return len(args) > 0 && slices.Contains(programs, path.Base(args[0].text))
}

// unwrap removes programs that only run another one. limits are the arguments of timeout.
func unwrap(args []arg) (inner, limits []arg) {
	for {
		n := 1 // of words that go
		switch {
		case has(args, "exec", "command", "nohup", "chronic", "env", "time"):
		case has(args, "setsid"):
			n = optionWords(args, "")
		case has(args, "nice", "ionice"):
			n = optionWords(args, "nc")
		case has(args, "sudo"):
			n = optionWords(args, "CDRTUghprtu", "--chdir", "--chroot", "--close-from",
				"--command-timeout", "--group", "--host", "--other-user", "--prompt", "--role",
				"--type", "--user")
		case has(args, "flock"): // the word after its options is the file
			n = optionWords(args, "Ew", "--conflict-exit-code", "--timeout", "--wait") + 1
		case has(args, "timeout"):
			n = optionWords(args, "ks", "--kill-after", "--signal")
			if n < len(args) {
				limits = args[n : n+1]
			}
			n++
		default:
			return args, limits
		}
		args = args[min(n, len(args)):]
	}
}

// optionWords returns how many words a program and its options are. Of short options, letters are
// those that take a value, and long has those of the long ones whose value may be the next word.
func optionWords(args []arg, letters string, long ...string) int {
	n := 1
	for n < len(args) && strings.HasPrefix(args[n].text, "-") {
		text := args[n].text
		n++
		switch {
		case strings.HasPrefix(text, "--"):
			if slices.Contains(long, text) {
				n++
			}
		case letters != "" && strings.IndexAny(text, letters) == len(text)-1: // not glued to it
			n++
		}
	}
	return n
}

// arg returns a word without its quotes.
func (s *script) arg(w *syntax.Word) arg {
	a := arg{text: s.source(w)}
	if a.why = s.unknown(w.Parts); a.why != "" {
		return a
	}
	if lit, ok := w.Parts[0].(*syntax.Lit); ok && strings.HasPrefix(lit.Value, "~") {
		a.why = a.text + " is in a home directory"
		return a
	}
	if parts := *w; syntax.SplitBraces(&parts) { // {1..999999999} would expand for long
		a.why = a.text + " does not stand for one word"
		return a
	}
	get := func(name string) string { return s.env.vars[name] }
	fields, err := expand.Fields(&expand.Config{Env: expand.FuncEnviron(get)}, w)
	switch {
	case err != nil:
		a.why = err.Error()
	case len(fields) != 1: // a variable with blanks, or an empty one
		a.why = a.text + " does not stand for one word"
	default:
		a.text = fields[0]
	}
	return a
}

// unknown returns why a word is only known when the command runs; "" if it is known now.
func (s *script) unknown(parts []syntax.WordPart) string {
	for _, part := range parts {
		switch p := part.(type) {
		case *syntax.Lit, *syntax.SglQuoted:
		case *syntax.DblQuoted:
			if why := s.unknown(p.Parts); why != "" {
				return why
			}
		case *syntax.CmdSubst:
			return s.source(p) + " is the output of a command"
		case *syntax.ParamExp:
			if why := s.variable(p); why != "" {
				return why
			}
		default:
			return s.source(p) + " is only known when the command runs"
		}
	}
	return ""
}

// variable returns why the value of a variable is not known; "" if a line of the crontab sets it.
func (s *script) variable(p *syntax.ParamExp) string {
	text := s.source(p)
	if p.Param == nil {
		return text + " is only known when the command runs"
	}
	name := p.Param.Value
	if _, known := s.env.vars[name]; !known || text != "$"+name && text != "${"+name+"}" {
		return text + " is only known when the command runs"
	}
	s.env.used[name] = true
	return ""
}
