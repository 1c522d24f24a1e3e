package importer

import (
	"strings"
	"time"

	"github.com/carillon-timer/carillon/libs/timer"
)

// curlOptions are the options of curl. It refuses others, because they may change the call.
var curlOptions = func() options {
	o := make(options)
	o.ignore(
		"-s --silent -S --show-error -f --fail --fail-with-body --fail-early -v --verbose -i "+
			"--include --show-headers -# --progress-bar --no-progress-meter --styled-output "+
			"--no-styled-output -N --no-buffer -q --disable --compressed --raw --tr-encoding "+
			"--tcp-nodelay --tcp-fastopen --no-keepalive --path-as-is --basic -j "+
			"--junk-session-cookies --http2 --no-alpn --no-npn --no-sessionid -1 --tlsv1 "+
			"--tlsv1.0 --tlsv1.1 --tlsv1.2 --tlsv1.3 --ssl-no-revoke --retry-connrefused --trace-time "+
			"--create-dirs --remove-on-error --clobber --no-clobber -R --remote-time --http0.9 "+
			"--ignore-content-length -J --remote-header-name",
		"-w --write-out --stderr --trace --trace-ascii --keepalive-time --expect100-timeout "+
			"--happy-eyeballs-timeout-ms --output-dir --create-file-mode --tls-max",
	)
	o["-o"] = option{arg: true, read: func(r *request, _ string, a arg) { r.output(a.text) }}
	o["--output"], o["-D"], o["--dump-header"] = o["-o"], o["-o"], o["-o"]
	o.flags("-O --remote-name --remote-name-all", func(r *request, _ string) {
		r.output("a file")
	})
	o.requests()
	o.secretsAndTLS()
	o.retries()
	o.leaveOut("-4 --ipv4 -6 --ipv6", "", "the executor chooses the address")
	o.leaveOut("-0 --http1.0 --http3 --http3-only", "",
		"calls use HTTP/1.1 or HTTP/2: see target.http2")
	o.leaveOut("", "--connect-timeout", "retry.timeout is for the whole attempt")
	o.leaveOut("", "--limit-rate -y --speed-time -Y --speed-limit --max-filesize",
		"retry.timeout is the only limit of a call")
	o.leaveOut("", "-c --cookie-jar", "no cookies are kept")
	o.leaveOut("", "-x --proxy --preproxy --socks4 --socks4a --socks5 --socks5-hostname --noproxy",
		"a timer calls its target itself: the executors must reach it")
	o.refuse("-Z --parallel -: --next", "", "makes several calls: give each a timer of its own")
	o.refuse("", "-T --upload-file -K --config", "reads a file")
	o.refuse("", "-F --form --form-string",
		"sends a form of several parts: give it as target.body, with its Content-Type")
	o.refuse("", "--unix-socket --abstract-unix-socket --resolve --connect-to --interface "+
		"--dns-servers --request-target -z --time-cond -C --continue-at --proto-default --url-query",
		"changes the call in a way that a timer cannot")
	return o
}()

// requests adds the options that make the request.
func (o options) requests() {
	o.values("--url", func(r *request, _, v string) { r.urls = append(r.urls, v) })
	o.values("-X --request", func(r *request, _, v string) { r.method = v })
	o.flags("-I --head", func(r *request, _ string) { r.head = true })
	o.flags("-G --get", func(r *request, _ string) { r.get = true })
	o.flags("-g --globoff", func(r *request, _ string) { r.globs = false })
	header := option{arg: true, read: (*request).headerOption}
	o["-H"], o["--header"] = header, header
	o.values("-A --user-agent", func(r *request, name, v string) {
		r.header(name, "User-Agent: "+v)
	})
	o.values("-r --range", func(r *request, name, v string) { r.header(name, "Range: bytes="+v) })
	o.values("-e --referer", func(r *request, name, v string) {
		v, _, _ = strings.Cut(v, ";auto")
		r.header(name, "Referer: "+v)
	})
	o.values("-d --data --data-ascii", func(r *request, name, v string) {
		if v, ok := r.content(name, v); ok {
			r.addData(v, false)
		}
	})
	o.values("--data-raw", func(r *request, _, v string) { r.addData(v, false) })
	o.values("--data-binary", func(r *request, name, v string) {
		if v, ok := r.content(name, v); ok {
			r.addData(v, false)
		}
	})
	o.values("--json", func(r *request, name, v string) {
		r.json = true
		if v, ok := r.content(name, v); ok {
			r.addData(v, true)
		}
	})
	o.values("--data-urlencode", func(r *request, name, v string) {
		at := strings.IndexAny(v, "=@")
		switch {
		case at < 0:
			r.addData(escape(v), false)
		case v[at] == '@':
			r.refusef("%s reads a file", name)
		case at == 0:
			r.addData(escape(v[1:]), false)
		default:
			r.addData(v[:at+1]+escape(v[at+1:]), false)
		}
	})
	o.flags("-L --location --location-trusted --follow", func(r *request, name string) {
		r.follows = true
		if name == "--location-trusted" {
			r.notef("%s is -L: no secret header goes to another host", name)
		}
	})
	o.flags("--post301 --post302 --post303", func(*request, string) {})
	o.values("--max-redirs", func(r *request, name, v string) { r.maxRedirects(name, v) })
	o.flags("--http1.1", func(r *request, _ string) { r.http2 = "never" })
	o.flags("--http2-prior-knowledge", func(r *request, _ string) { r.http2 = "always" })
}

// content returns a value, or what is read in its place: @- is the input, and @ any other file.
func (r *request) content(name, value string) (string, bool) {
	file, isFile := strings.CutPrefix(value, "@")
	switch {
	case !isFile:
		return value, true
	case file != "-":
		r.refusef("%s reads its body from %s: give it as target.body", name, file)
		return "", false
	case name == "--data-binary" || name == "--json":
		return r.stdin, true
	}
	return strings.NewReplacer("\r", "", "\n", "").Replace(r.stdin), true // as curl does
}

// maxRedirects reads how many redirects are followed.
func (r *request) maxRedirects(name, value string) {
	n, ok := r.number(name, value)
	if ok && (n < 0 || n > timer.MaxRedirects) {
		const most = timer.MaxRedirects
		r.notef("%s %d: target.redirects is %d, the most that there can be", name, n, most)
		n = most
	}
	r.redirects = n
}

// secretsAndTLS adds the options of credentials and certificates.
func (o options) secretsAndTLS() {
	o.secrets("", "-u --user", basicRemedy)
	o.secrets("", "--oauth2-bearer",
		`the header "Authorization: Bearer …" by target.secret_headers`)
	o.secrets("", "-b --cookie", "the header Cookie by target.secret_headers")
	o.secrets("-n --netrc --netrc-optional", "--netrc-file", basicRemedy)
	o.secrets("--digest --ntlm --negotiate --anyauth", "--aws-sigv4",
		"a header by target.secret_headers, or target.oauth2, as timers know no other ways")
	o.secrets("", "-E --cert --key --pass --cert-type --key-type",
		"target.tls.cert and target.tls.key")
	o.leaveOut("-k --insecure", "",
		"certificates are verified; give target.tls.ca if the receiver's is of your own CA, or "+
			"target.tls.insecure if the deployment allows it")
	o.leaveOut("", "--cacert --capath", "give the certificates as target.tls.ca")
	o.leaveOut("", "--ciphers --tls13-ciphers --curves --pinnedpubkey",
		"the executor chooses how it encrypts")
	o.leaveOut("", "-U --proxy-user", "a timer calls its target itself")
}

// retries adds the options of retries and timeouts.
func (o options) retries() {
	o.values("-m --max-time", func(r *request, name, v string) {
		r.setTimeout(name, v, time.Second)
	})
	o.values("--retry", func(r *request, name, v string) {
		if n, ok := r.number(name, v); ok {
			r.attempts, r.attemptsOf = max(n, 0)+1, name
		}
		r.noRetry = permanent
	})
	o.flags("--retry-all-errors", func(r *request, _ string) { r.retryAll = true })
	o.values("--retry-delay", func(r *request, name, v string) {
		r.wait, _ = r.duration(name, v, time.Second)
	})
	o.values("--retry-max-time", func(r *request, name, v string) {
		r.giveUpAfter, _ = r.duration(name, v, time.Second)
		r.notef("%s is retry.give_up_after, which counts from the planned instant", name)
	})
}
