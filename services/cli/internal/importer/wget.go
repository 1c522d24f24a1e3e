package importer

import (
	"net/http"
	"strings"
	"time"
)

// wgetOptions are the options of wget. It refuses others, because they may change the call.
var wgetOptions = func() options {
	o := make(options)
	o.ignore(
		"-q --quiet -v --verbose --no-verbose -S --server-response -b --background -d --debug "+
			"--no-hsts --show-progress --no-cookies --content-on-error "+
			"--retry-connrefused --no-iri --no-netrc -x -N --timestamping "+
			"--no-clobber --no-directories --no-host-directories --no-parent --https-only",
		"-n --progress --waitretry -o --output-file -a --append-output --report-speed "+
			"--secure-protocol",
	)
	output := option{arg: true, read: func(r *request, _ string, a arg) {
		r.saves = false
		r.output(a.text)
	}}
	o["-O"], o["--output-document"] = output, output
	o.ignore("", "-P --directory-prefix")
	o.flags("--delete-after", func(r *request, _ string) { r.saves = false })
	o.flags("--spider", func(r *request, _ string) { r.head, r.saves = true, false })
	o.values("--method", func(r *request, _, v string) { r.method = strings.ToUpper(v) })
	o.values("--post-data", func(r *request, _, v string) {
		r.method = http.MethodPost
		r.addData(v, false)
	})
	o.values("--body-data", func(r *request, _, v string) { r.addData(v, false) })
	o["--header"] = option{arg: true, read: (*request).headerOption}
	o.values("-U --user-agent", func(r *request, name, v string) {
		r.header(name, "User-Agent: "+v)
	})
	o.values("--referer", func(r *request, name, v string) { r.header(name, "Referer: "+v) })
	o.flags("--no-cache", func(r *request, name string) {
		r.header(name, "Cache-Control: no-cache")
		r.header(name, "Pragma: no-cache")
	})
	o.values("--max-redirect", func(r *request, name, v string) { r.maxRedirects(name, v) })
	o.values("-t --tries", func(r *request, name, v string) {
		const endless = 1 << 20 // more than there can be
		n, ok := 0, v == "inf"
		if !ok {
			n, ok = r.number(name, v)
		}
		if ok && n == 0 {
			n = endless
		}
		r.attempts, r.attemptsOf = n, name
	})
	o.values("-T --timeout --read-timeout", func(r *request, name, v string) {
		r.setTimeout(name, v, time.Second)
		r.notef("%s is retry.timeout, which is for the whole attempt", name)
	})
	o.leaveOut("", "--connect-timeout --dns-timeout", "retry.timeout is for the whole attempt")
	o.leaveOut("-4 --inet4-only -6 --inet6-only", "", "the executor chooses the address")
	o.leaveOut("", "--limit-rate -Q --quota -w --wait", "retry.timeout is the only limit of a call")
	o.leaveOut("--no-proxy", "-Y --proxy",
		"a timer calls its target itself: the executors must reach it")
	o.leaveOut("--no-check-certificate", "",
		"certificates are verified; give target.tls.ca if the receiver's is of your own CA, or "+
			"target.tls.insecure if the deployment allows it")
	o.leaveOut("", "--ca-certificate --ca-directory", "give the certificates as target.tls.ca")
	o.secrets("--auth-no-challenge", "--user --password --http-user --http-password", basicRemedy)
	o.secrets("", "--certificate --private-key", "target.tls.cert and target.tls.key")
	o.secrets("", "--load-cookies", "the header Cookie by target.secret_headers")
	o.refuse("", "--post-file --body-file -i --input-file --config", "reads a file")
	o.refuse("-r --recursive -m --mirror -p --page-requisites -c --continue", "",
		"makes several calls, or part of one")
	return o
}()
