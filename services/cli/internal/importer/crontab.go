package importer

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

var (
	crontabVariable = regexp.MustCompile(`^["']?([A-Za-z_]\w*)["']?\s*=\s*(.*)$`)
	notInNames      = regexp.MustCompile(`[^A-Za-z0-9._-]+`)
	stepOfOneValue  = regexp.MustCompile(`(^|,)\w+/`)
	// rhythm matches hours for which gap and overlap do not matter.
	rhythm = regexp.MustCompile(`^\*(/\d+)?$`)
)

const blanks = " \t"

// environment is what the lines before an entry set.
type environment struct {
	zone     string
	zoneFrom string // the variable that names the zone
	vars     map[string]string
	used     map[string]bool // variables that became part of a definition
}

// accounts are usual users of the system, by whose names lines of /etc/crontab are recognized.
var accounts = []string{"root", "nobody", "www-data"}

// crontab converts a user's crontab. A command that is one curl or wget is carried over as its
// call. Other commands run programs, which a timer cannot.
func crontab(data []byte, opts Options) ([]Result, error) {
	return readCrontab(data, opts, crontabEntry), nil
}

// crontabWithUsers converts /etc/crontab or a file of /etc/cron.d, which names a user before each
// command.
func crontabWithUsers(data []byte, opts Options) ([]Result, error) {
	return readCrontab(data, opts, crontabEntryWithUser), nil
}

func readCrontab(
	data []byte, opts Options, convert func(e *entry, line string, env *environment) Result,
) []Result {
	var all []Result
	env := environment{vars: make(map[string]string), used: make(map[string]bool)}
	variables := make(map[int]string) // by position among the results
	n := 0
	for line := range strings.Lines(string(data)) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		e := newEntry(opts, fmt.Sprintf("line %d", n))
		m := crontabVariable.FindStringSubmatch(line)
		switch {
		case !utf8.ValidString(line):
			all = append(all, e.refusef("it is no UTF-8 text: convert the file, such as by iconv"))
		case m == nil:
			all = append(all, convert(e, line, &env))
		case m[1] == "CRON_TZ" || m[1] == "TZ" && env.zoneFrom != "CRON_TZ":
			env.zone, env.zoneFrom = unquoted(m[2]), m[1]
		case m[1] == "TZ":
		default:
			env.vars[m[1]] = unquoted(m[2])
			variables[len(all)] = m[1]
			e.notef("%s is left out: it is of the environment of commands", m[1])
			all = append(all, e.result)
		}
	}
	for _, i := range slices.Backward(slices.Sorted(maps.Keys(variables))) {
		if env.used[variables[i]] {
			all = slices.Delete(all, i, i+1)
		}
	}
	return all
}

// unquoted returns the value of a variable, without the quotes that cron removes.
func unquoted(value string) string {
	value = strings.TrimSpace(value)
	if n := len(value); n > 1 && (value[0] == '"' || value[0] == '\'') && value[n-1] == value[0] {
		return value[1 : n-1]
	}
	return value
}

func crontabEntry(e *entry, line string, env *environment) Result {
	spec, command := cutFields(line)
	first := command[:max(strings.IndexAny(command, blanks), 0)]
	if slices.Contains(accounts, first) {
		return e.refusef("%s is a user before the command: give --from cron.d", first)
	}
	return commandEntry(e, spec, command, env)
}

func crontabEntryWithUser(e *entry, line string, env *environment) Result {
	spec, command := cutFields(line)
	end := strings.IndexAny(command, blanks)
	if spec != "" && end < 0 {
		return e.refusef("expected a schedule, a user and a command")
	}
	user, command := command[:max(end, 0)], strings.TrimSpace(command[max(end, 0):])
	if user == "curl" || user == "wget" || strings.Contains(user, "/") {
		return e.refusef("%s is no user before the command: give --from crontab", user)
	}
	r := commandEntry(e, spec, command, env)
	if r.url != "" {
		r.Notes = append(r.Notes, "cron ran it as the user "+user)
	}
	return r
}

func commandEntry(e *entry, spec, command string, env *environment) Result {
	switch {
	case spec == "@reboot":
		return e.refusef("@reboot is no schedule")
	case spec == "" || command == "":
		return e.refusef("expected five fields and a command")
	}
	e.cron(spec, env.zone, "the host of cron")
	if env.zoneFrom == "TZ" {
		e.notef(
			"TZ is taken as the time zone of the schedule: many versions of cron read only " +
				"CRON_TZ there, and pass TZ to the command; if yours does, leave TZ out, and give " +
				"the zone of its host by --tz",
		)
	}
	e.checkFields(spec)
	command, stdin := cutInput(command)
	name := plainWords(command)
	called, why := e.shell(command, stdin, env)
	if why != "" {
		e.notef("the timer cannot make its call: %s", why)
	}
	if e.url == "" {
		e.notef("it runs a program, which the timer does not: %s", command)
	}
	if called != "" {
		_, name, _ = strings.Cut(called, "://")
		if name == "" {
			name = called
		}
		if end := strings.IndexAny(name, "?#"); end >= 0 {
			name = name[:end]
		}
	}
	const longest = 60
	name = notInNames.ReplaceAllString(name, "-")
	name = strings.Trim(name[:min(len(name), longest)], "-./")
	return e.finish("", name)
}

// plainWord is a word of a command that is no option, and has nothing but a name or a path.
var plainWord = regexp.MustCompile(`^[\pL\pN_./][\pL\pN_./-]*$`)

// plainWords returns the words of a command up to its first option, which may be followed by a
// secret. It leaves out variables before the program.
func plainWords(command string) string {
	var words []string
	for word := range strings.FieldsSeq(command) {
		switch {
		case slices.Contains([]string{"&&", "||", "|", ";"}, word):
			continue
		case len(words) == 0 && word[0] != '-' && strings.Contains(word, "="):
			continue
		case !plainWord.MatchString(word):
			return cmp.Or(strings.Join(words, " "), "command")
		}
		words = append(words, word)
	}
	return cmp.Or(strings.Join(words, " "), "command")
}

// cutFields returns the schedule of a line and its command, which is empty if there is none.
func cutFields(line string) (spec, command string) {
	n := 5
	if strings.HasPrefix(line, "@") {
		n = 1
	}
	var fields []string
	for range n {
		line = strings.TrimLeft(line, blanks)
		end := strings.IndexAny(line, blanks)
		if end < 0 {
			return "", ""
		}
		fields = append(fields, line[:end])
		line = line[end:]
	}
	return strings.Join(fields, " "), strings.TrimSpace(line)
}

// cutInput cuts what cron passes to the command as its input: what follows the first %. Every
// further % is the end of a line, and \% is a percent sign.
func cutInput(text string) (command, stdin string) {
	var parts []string
	var part strings.Builder
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\' && i+1 < len(text):
			if i++; text[i] != '%' {
				part.WriteByte(c)
			}
			part.WriteByte(text[i])
		case c == '%':
			parts = append(parts, part.String())
			part.Reset()
		default:
			part.WriteByte(c)
		}
	}
	parts = append(parts, part.String())
	command = strings.TrimSpace(parts[0])
	if len(parts) > 1 {
		stdin = strings.TrimSuffix(strings.Join(parts[1:], "\n"), "\n") + "\n"
	}
	return command, stdin
}

// checkFields notes expressions that cron and package schedule read differently.
func (e *entry) checkFields(spec string) {
	const minute, hour, dayOfMonth, dayOfWeek = 0, 1, 2, 4
	f := strings.Fields(spec)
	if len(f) <= dayOfWeek {
		return
	}
	// cron runs a line by the clock if its minute or its hour begins with *. It moves others out of a
	// gap, and runs them once in an overlap, as the defaults of gap and overlap do.
	if (f[minute][0] == '*' || f[hour][0] == '*') && !rhythm.MatchString(f[hour]) {
		e.followClock()
	}
	if i := slices.IndexFunc(f, stepOfOneValue.MatchString); i >= 0 {
		e.notef(
			"%s is read as every such step from its value on, which not all versions of cron do: "+
				"compare the instants by carillon explain",
			f[i],
		)
	}
	// If a field begins with *, as */2 does, cron wants days that match both fields. Package schedule
	// wants that if an item of a field is * alone.
	cronBoth := f[dayOfMonth][0] == '*' || f[dayOfWeek][0] == '*'
	if hereBoth := hasStar(f[dayOfMonth]) || hasStar(f[dayOfWeek]); cronBoth == hereBoth {
		return
	}
	e.body["status"] = "inactive"
	cron, here := "either field", "both"
	if cronBoth {
		cron, here = "both fields", "either"
	}
	e.notef(
		"cron is due on days that match %s, %s (of the month) and %s (of the week), Carillon on "+
			"days that match %s: correct schedule.specs, for example with a calendar for the "+
			"weekdays, and activate the timer then",
		cron, f[dayOfMonth], f[dayOfWeek], here,
	)
}

// hasStar reports whether package schedule takes a field of days for unrestricted.
func hasStar(field string) bool {
	for item := range strings.SplitSeq(field, ",") {
		if item == "*" || item == "*/1" {
			return true
		}
	}
	return false
}
