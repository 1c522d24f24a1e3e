package importer

import (
	"slices"
	"strings"
)

// option is one option of a program.
type option struct {
	arg  bool // whether a value follows
	read func(r *request, name string, value arg)
}

// options are those of a program by their names, such as "-X" and "--request".
type options map[string]option

// flags adds options without a value. names are separated by blanks.
func (o options) flags(names string, read func(*request, string)) {
	for name := range strings.FieldsSeq(names) {
		o[name] = option{read: func(r *request, name string, _ arg) { read(r, name) }}
	}
}

// values adds options with a value, which must be known.
func (o options) values(names string, read func(*request, string, string)) {
	for name := range strings.FieldsSeq(names) {
		o[name] = option{arg: true, read: func(r *request, name string, value arg) {
			if value.why != "" {
				r.refusef("%s", value.why)
			}
			read(r, name, value.text)
		}}
	}
}

// ignore adds options on which the call does not depend.
func (o options) ignore(flags, values string) {
	o.flags(flags, func(*request, string) {})
	for name := range strings.FieldsSeq(values) {
		o[name] = option{arg: true, read: func(*request, string, arg) {}}
	}
}

// leaveOut adds options that are left out with a note: why, and what to do.
func (o options) leaveOut(flags, values, why string) {
	note := func(r *request, name string, _ arg) { r.notef("%s is left out: %s", name, why) }
	o.each(flags, values, note)
}

// refuse adds options with which a timer cannot make the call.
func (o options) refuse(flags, values, why string) {
	o.each(flags, values, func(r *request, name string, _ arg) { r.refusef("%s %s", name, why) })
}

// secrets adds options of secrets, which are left out.
func (o options) secrets(flags, values, remedy string) {
	o.each(flags, values, func(r *request, name string, _ arg) { r.secret(name, remedy) })
}

func (o options) each(flags, values string, read func(*request, string, arg)) {
	for name := range strings.FieldsSeq(flags) {
		o[name] = option{read: read}
	}
	for name := range strings.FieldsSeq(values) {
		o[name] = option{arg: true, read: read}
	}
}

// parse reads arguments as getopt does: -sX POST, -XPOST, --request POST, --request=POST. Package
// pflag would read -d=x as x, while curl and wget read =x.
func (o options) parse(r *request, args []arg) {
	for len(args) > 0 {
		a := args[0]
		args = args[1:]
		switch {
		case a.text == "--":
			for _, operand := range args {
				r.operand(operand)
			}
			return
		case !strings.HasPrefix(a.text, "-") || a.text == "-":
			r.operand(a)
		case strings.HasPrefix(a.text, "--"):
			name, value, inline := strings.Cut(a.text, "=")
			rest := args
			if inline {
				rest = slices.Insert(slices.Clone(args), 0, arg{value, a.why})
			}
			left, known := o.one(r, name, rest)
			if !known {
				return
			}
			if inline && len(left) == len(rest) {
				r.refusef("%s takes no value", name)
			}
			args = left
		case a.why != "":
			// The letters are known, unless the rest of the word is a value.
			r.refusef("%s", a.why)
			return
		default:
			var known bool
			if args, known = o.short(r, a.text[1:], args); !known {
				return
			}
		}
	}
}

// short reads options of one letter that stand together. It returns the arguments that are left.
func (o options) short(r *request, letters string, args []arg) (left []arg, known bool) {
	for i := range len(letters) {
		name := "-" + letters[i:i+1]
		if o[name].arg {
			if rest := letters[i+1:]; rest != "" {
				args = slices.Insert(slices.Clone(args), 0, arg{text: rest})
			}
			return o.one(r, name, args)
		}
		if _, known := o.one(r, name, nil); !known {
			return nil, false
		}
	}
	return args, true
}

// one reads one option, with its value from args. It returns the arguments that are left.
func (o options) one(r *request, name string, args []arg) (left []arg, known bool) {
	opt, known := o[name]
	switch {
	case !known:
		r.refusef("the importer does not know its option %s", name)
		return nil, false
	case !opt.arg:
		opt.read(r, name, arg{})
		return args, true
	case len(args) == 0:
		r.refusef("%s has no value", name)
		return nil, false
	}
	opt.read(r, name, args[0])
	return args[1:], true
}
