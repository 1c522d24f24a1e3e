package importer

import (
	"fmt"
	"regexp"
	"strings"
)

var (
	crontabVariable = regexp.MustCompile(`^\s*([A-Za-z_]\w*)\s*=\s*(.*)$`)
	curlURL         = regexp.MustCompile(`https?://[^\s'"<>|;&]+`)
	curlMethod      = regexp.MustCompile(`(?:-X|--request)[ =]?([A-Z]+)`)
	curlBody        = regexp.MustCompile(`(?:-d|--data|--data-raw)[ =]('[^']*'|"[^"]*"|\S+)`)
	notInNames      = regexp.MustCompile(`[^A-Za-z0-9._-]+`)
)

// crontab converts a user's crontab. A command that is one curl or wget is carried over as its
// call. Other commands run programs, which a timer cannot.
func crontab(data []byte, opts Options) ([]Result, error) {
	var all []Result
	zone := opts.Zone
	n := 0
	for line := range strings.Lines(string(data)) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		source := fmt.Sprintf("line %d", n)
		if m := crontabVariable.FindStringSubmatch(line); m != nil {
			e := newEntry(opts, source)
			if value := strings.Trim(m[2], `"'`); m[1] == "CRON_TZ" || m[1] == "TZ" {
				zone = value
			} else {
				all = append(
					all,
					e.refusef("%s is of the environment of commands: it is left out", m[1]),
				)
			}
			continue
		}
		all = append(all, crontabEntry(newEntry(opts, source), line, zone))
	}
	return all, nil
}

func crontabEntry(e *entry, line, zone string) Result {
	const fields = 5
	var spec, command string
	if strings.HasPrefix(line, "@") {
		spec, command, _ = strings.Cut(line, " ")
		if spec == "@reboot" {
			return e.refusef("@reboot is no schedule")
		}
	} else {
		f := strings.Fields(line)
		if len(f) <= fields {
			return e.refusef("expected five fields and a command")
		}
		spec = strings.Join(f[:fields], " ")
		command = strings.Join(f[fields:], " ")
	}
	command = strings.TrimSpace(command)
	e.cron(spec, zone, "the host of cron")
	name := notInNames.ReplaceAllString(command, "-")
	if program, _, _ := strings.Cut(
		command,
		" ",
	); strings.HasSuffix(program, "curl") ||
		strings.HasSuffix(program, "wget") {
		e.url = curlURL.FindString(command)
		e.curl(command)
		name = notInNames.ReplaceAllString(
			strings.TrimPrefix(strings.TrimPrefix(e.url, "https://"), "http://"),
			"-",
		)
	} else {
		e.notef("it runs a program, which the timer does not: %s", command)
	}
	const longest = 60
	name = strings.Trim(name[:min(len(name), longest)], "-./")
	return e.finish("", name)
}

// curl takes method and body of a curl command.
func (e *entry) curl(command string) {
	target := map[string]any{"method": "GET"}
	if m := curlBody.FindStringSubmatch(command); m != nil {
		target["method"], target["body"] = "POST", strings.Trim(m[1], `"'`)
	}
	if m := curlMethod.FindStringSubmatch(command); m != nil {
		target["method"] = m[1]
	}
	if strings.Contains(command, "-H") || strings.Contains(command, "--header") {
		e.notef("its headers are left out: give them by carillon timer edit")
	}
	if strings.ContainsAny(command, "|;") {
		e.notef("what follows the call in the shell is left out")
	}
	e.body["target"] = target
}
