package importer

import (
	"net/url"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/carillon-timer/carillon/libs/timer"
)

// numberNames makes the names of timers unique. Then it completes the URLs that have the name.
func numberNames(results []Result) {
	taken := make(map[[2]string]bool)
	for i := range results {
		if m := results[i].Manifest; m != nil {
			taken[[2]string{m.App, m.Name}] = true
		}
	}
	seen := make(map[[2]string]bool)
	for i := range results {
		r := &results[i]
		m := r.Manifest
		if m == nil {
			continue
		}
		if base := m.Name; seen[[2]string{m.App, base}] {
			for n := 2; taken[[2]string{m.App, m.Name}]; n++ {
				number := "-" + strconv.Itoa(n)
				m.Name = validName(base, timer.MaxNameLen-len(number)) + number
			}
			taken[[2]string{m.App, m.Name}] = true
			m.Body["name"] = m.Name
			r.Notes = append(r.Notes, "another entry has the same name: it is "+m.Name+
				"; numbers follow the order of the entries")
		}
		seen[[2]string{m.App, m.Name}] = true
		if r.url != "" {
			u := urlOf(r.url, m.Name)
			m.Body.Object("target")["url"] = u
			r.Notes = append(r.Notes, "it calls "+u)
		}
	}
}

// urlOf returns a URL with a name in place of {name}.
func urlOf(text, name string) string {
	// Only %20 is a space in all parts of a URL.
	escaped := strings.ReplaceAll(url.QueryEscape(name), "+", "%20")
	return strings.ReplaceAll(text, "{name}", escaped)
}

// validName returns a name that the API takes: without other characters than those that can be
// printed, and at most so many bytes long.
func validName(name string, most int) string {
	name = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) || r == utf8.RuneError {
			return '-'
		}
		return r
	}, name)
	if len(name) > most {
		name = name[:most]
		for !utf8.ValidString(name) {
			name = name[:len(name)-1]
		}
	}
	return strings.TrimSpace(name)
}
