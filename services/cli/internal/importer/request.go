package importer

import (
	"fmt"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/carillon-timer/carillon/libs/callback"
	"github.com/carillon-timer/carillon/libs/timer"
)

// request is the call that curl or wget makes.
type request struct {
	program string // curl or wget
	stdin   string
	why     string // why the timer cannot make it; "" if it can
	notes   []string

	urls      []string
	method    string // "" for the one that follows from the rest
	head, get bool
	data      strings.Builder
	hasData   bool
	json      bool
	headers   map[string][]string
	http2     string
	follows   bool // redirects
	redirects int  // at most
	inactive  bool // something is missing without which it should not be called
	globs     bool // braces and brackets in a URL stand for several
	saves     bool // the answer in a file of the URL's name

	timeout     time.Duration // 0 for none
	timeoutOf   string        // the option
	attempts    int           // 0 for the default of Carillon
	attemptsOf  string
	noRetry     string
	retryAll    bool          // whatever noRetry says
	wait        time.Duration // 0 for the default of the program
	giveUpAfter time.Duration
}

func newRequest(program, stdin string) request {
	r := request{
		program: path.Base(program), stdin: stdin,
		headers: make(map[string][]string), redirects: timer.MaxRedirects,
	}
	if r.program == "curl" {
		r.globs = true
		r.attempts = 1
	} else {
		r.follows, r.saves = true, true
		r.noRetry = allStatuses
	}
	return r
}

func (r *request) read(args []arg) {
	if r.program == "curl" {
		curlOptions.parse(r, args)
		return
	}
	wgetOptions.parse(r, args)
}

// refusef says why the timer cannot make the call. The first reason counts.
func (r *request) refusef(format string, args ...any) {
	if r.why == "" {
		r.why = fmt.Sprintf(format, args...)
	}
}

func (r *request) notef(format string, args ...any) {
	r.notes = append(r.notes, fmt.Sprintf(format, args...))
}

// secret notes a secret, which does not become part of a file.
func (r *request) secret(what, remedy string) {
	r.notef("%s is left out, as it is a secret: give %s, and activate the timer then", what, remedy)
	r.inactive = true
}

// output notes a file to which the answer is written.
func (r *request) output(file string) {
	if file != devNull && file != "-" && file != "/dev/stdout" && file != "/dev/stderr" {
		r.notef("the answer is not written to %s: the receiver must keep what matters", file)
	}
}

// operand reads an argument that is no option.
func (r *request) operand(a arg) {
	if a.why != "" {
		r.refusef("%s", a.why)
		return
	}
	r.urls = append(r.urls, a.text)
}

var (
	withScheme   = regexp.MustCompile(`^([A-Za-z][A-Za-z0-9+.-]*)://`)
	otherScheme  = regexp.MustCompile(`^(?i)(ftp|dict|ldap|imap|smtp|pop3)\.`)
	addressIPv6  = regexp.MustCompile(`//([^/?#]*@)?\[[0-9A-Fa-f:.]+\]`)
	secretHeader = regexp.MustCompile(
		`(?i)authorization|(^|[-_])auth([-_]|$)|cookie|token|secret|passw|credential|signature|` +
			`(api|access)[-_]?key`,
	)
)

// headerOption reads a header. The value of a secret may be unknown, as it is left out.
func (r *request) headerOption(option string, a arg) {
	if name, _, ok := strings.Cut(strings.Trim(a.text, `"'`), ":"); a.why != "" &&
		ok && secretHeader.MatchString(name) {
		r.header(option, name+": secret")
		return
	}
	if a.why != "" {
		r.refusef("%s", a.why)
		return
	}
	r.header(option, a.text)
}

// header reads a header as curl and wget write it.
func (r *request) header(option, text string) {
	name, value, colon := strings.Cut(text, ":")
	name, value = strings.TrimSpace(name), strings.TrimSpace(value)
	key := http.CanonicalHeaderKey(name)
	switch {
	case strings.HasPrefix(text, "@"):
		r.refusef("%s reads headers from a file", option)
	case !colon && strings.HasSuffix(text, ";"): // curl: an empty value
		r.headers[http.CanonicalHeaderKey(strings.TrimSuffix(text, ";"))] = []string{""}
	case !colon:
		r.refusef("%s %q is no header", option, text)
	case key == "Content-Length" || key == "Transfer-Encoding" || key == "Connection" ||
		key == "Expect":
		if value != "" {
			r.notef("the header %s is left out: the client sets it for each call", key)
		}
	case secretHeader.MatchString(name):
		r.secret("the header "+name, "it by target.secret_headers")
	case value == "": // curl: not the header that it would add
		r.headers[key] = nil
	default:
		r.headers[key] = append(r.headers[key], value)
	}
}

// addData adds a part of the body. curl joins parts with &, but not those of --json.
func (r *request) addData(text string, isJSON bool) {
	if r.hasData && !isJSON && r.data.Len() > 0 {
		r.data.WriteByte('&')
	}
	r.data.WriteString(text)
	r.hasData = true
}

// limit reads the limit of the program timeout.
func (r *request) limit(args []arg) {
	for _, a := range args {
		if a.why != "" {
			r.refusef("%s", a.why)
			return
		}
		unit := time.Second
		number := a.text
		if n := len(number); n > 0 {
			if u, ok := map[byte]time.Duration{
				's': time.Second, 'm': time.Minute, 'h': time.Hour, 'd': 24 * time.Hour,
			}[number[n-1]]; ok {
				unit, number = u, number[:n-1]
			}
		}
		r.setTimeout("timeout", number, unit)
	}
}

// setTimeout reads a timeout. The shortest one counts.
func (r *request) setTimeout(option, text string, unit time.Duration) {
	d, ok := r.duration(option, text, unit)
	if ok && d > 0 && (r.timeout == 0 || d < r.timeout) {
		r.timeout, r.timeoutOf = d, option
	}
}

func (r *request) duration(option, text string, unit time.Duration) (time.Duration, bool) {
	n, err := strconv.ParseFloat(text, 64)
	const most = 10 * 365 * 24 * time.Hour
	if err != nil || !(n >= 0) {
		r.refusef("%s: expected a number, found %q", option, text)
		return 0, false
	}
	return time.Duration(min(n*float64(unit), float64(most))), true
}

func (r *request) number(option, text string) (int, bool) {
	n, err := strconv.Atoi(text)
	if err != nil {
		r.refusef("%s: expected a whole number, found %q", option, text)
	}
	return n, err == nil
}

// finish makes the request the target of an entry. See shell about its results.
func (r *request) finish(e *entry) (called, why string) {
	called = r.address()
	if r.why != "" {
		return called, r.why
	}
	method := r.method
	switch {
	case method != "":
	case r.head:
		method = http.MethodHead
	case r.hasData && !r.get:
		method = http.MethodPost
	default:
		method = http.MethodGet
	}
	t := e.field("target")
	t["method"] = method
	data := r.data.String()
	switch {
	case r.get && data != "":
		plain, fragment, _ := strings.Cut(called, "#")
		separator := "?"
		if strings.Contains(plain, "?") {
			separator = "&"
		}
		called = plain + separator + data
		if fragment != "" {
			called += "#" + fragment
		}
	case r.hasData:
		r.defaultHeaders()
		e.setBody(data)
	}
	for name, values := range r.headers {
		if values == nil {
			delete(r.headers, name)
		}
	}
	if len(r.headers) > 0 {
		t["headers"] = r.headers
	}
	if r.http2 != "" {
		t["http2"] = r.http2
	}
	if r.follows && r.redirects > 0 {
		t["redirects"] = r.redirects
		if method != http.MethodGet {
			r.notef(
				"a redirect of 301, 302 or 303 is not followed, as it would make the %s a GET: "+
					"correct target.url if there is one",
				method,
			)
		}
	}
	if r.saves {
		r.output("a file")
	}
	if r.inactive {
		e.body["status"] = "inactive"
	}
	e.url = called
	e.result.Notes = append(e.result.Notes, r.notes...)
	r.setRetry(e)
	return called, ""
}

// defaultHeaders sets the headers that the programs add to a body.
func (r *request) defaultHeaders() {
	add := func(name, value string) {
		if _, given := r.headers[name]; !given {
			r.headers[name] = []string{value}
		}
	}
	if r.json {
		add("Content-Type", "application/json")
		add("Accept", "application/json")
	}
	add("Content-Type", "application/x-www-form-urlencoded")
}

// address returns the URL of the call, without user and password.
func (r *request) address() string {
	if len(r.urls) == 0 {
		r.refusef("it names no URL")
		return r.program
	}
	text := r.urls[0]
	if len(r.urls) > 1 {
		r.refusef("it calls several URLs: give each a timer of its own")
	}
	if m := withScheme.FindStringSubmatch(text); m != nil {
		scheme := strings.ToLower(m[1])
		text = scheme + text[len(m[1]):]
		if scheme != "http" && scheme != "https" {
			r.refusef("%s is no URL of http or https", text)
		}
	} else {
		if r.program == "curl" && otherScheme.MatchString(text) {
			r.refusef("%s is no URL of http or https", text)
		}
		text = "http://" + text
	}
	if r.globs && strings.ContainsAny(addressIPv6.ReplaceAllString(text, ""), "{}[]") {
		r.refusef("%s stands for several URLs: give each a timer of its own", text)
	}
	plain, _, has := callback.Userinfo(text)
	if has {
		r.secret("the user in its URL", basicRemedy)
	}
	return plain
}

const (
	basicRemedy = `the header "Authorization: Basic …" by target.secret_headers`

	allStatuses = "300-999"
	// permanent are the statuses after which curl does not try again.
	permanent = "300-407,409-428,430-499,501,505-999"
)

// setRetry sets timeout and attempts.
func (r *request) setRetry(e *entry) {
	if r.timeout > 0 {
		e.timeout(r.timeoutOf, r.timeout)
	} else { // the programs wait long, or without limit
		e.field("retry")["timeout"] = maxTimeout.String()
	}
	if r.attempts > 0 {
		e.attempts(r.attemptsOf, r.attempts)
	}
	if r.attempts == 1 {
		return
	}
	if r.timeoutOf == "timeout" {
		e.notef("timeout is for each attempt: give retry.give_up_after for all of them")
	}
	retry := e.field("retry")
	if r.noRetry != "" && !r.retryAll {
		retry["no_retry"] = r.noRetry
	}
	if r.wait > 0 {
		retry["wait"], retry["factor"] = r.wait.String(), 1
	} else if r.program == "curl" {
		retry["max_wait"] = "10m"
	}
	if r.giveUpAfter > 0 {
		retry["give_up_after"] = r.giveUpAfter.String()
	}
}

// escape encodes a text as curl does for --data-urlencode.
func escape(text string) string { return strings.ReplaceAll(url.QueryEscape(text), "+", "%20") }
