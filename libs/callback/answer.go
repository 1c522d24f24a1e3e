package callback

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/carillon-timer/carillon/libs/timer"
)

// maxRuleBody limits how much of a body the success rule reads.
const maxRuleBody = 64 << 10

// answer is an HTTP answer, with what else is known about it.
type answer struct {
	*http.Response

	notFollowed string // why its redirect was not followed; empty: the target follows none
	note        string // for the error
}

// classify classifies an HTTP answer.
func (h *HTTP) classify(
	ctx context.Context,
	q *Request,
	resp answer,
	timeout time.Duration,
) Result {
	defer resp.Body.Close()
	r := Result{StatusCode: int32(resp.StatusCode)} //nolint:gosec // three digits
	if q.KeepHeaders {
		r.Headers = shownHeaders(resp.Header)
	}
	if accepts(q, resp.Response) {
		// This comes first, because the success rule is about answers that complete the fire.
		// Target and receiver agree on an acceptance by its header.
		r.Excerpt = readExcerpt(resp.Body, h.o.MaxDrain)
		r.accepted(q, resp.Response)
		return r
	}
	rule := q.Target.Success
	wanted := resp.StatusCode/100 == 2
	if rule != nil && len(rule.Statuses) > 0 {
		wanted = rule.Statuses.Contains(r.StatusCode)
	}
	switch {
	// the following bytes are not an answer, and may never end
	case resp.StatusCode == http.StatusSwitchingProtocols:
		wanted = false
	case wanted && rule != nil && rule.Body != "":
		return h.matchBody(ctx, rule.Body, resp.Response, r, timeout)
	default:
		r.Excerpt = readExcerpt(resp.Body, h.o.MaxDrain)
	}
	if wanted {
		return r
	}
	resp.refuses(&r)
	return r
}

// refuses fills in the result of an answer that is no success.
func (a answer) refuses(r *Result) {
	r.Class, r.Failure = Retry, timer.FailureStatus
	r.Error = "answered " + statusLine(a.Response)
	switch a.StatusCode {
	case http.StatusGone:
		r.Class, r.Pause = Reject, true
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		r.RetryAfter = parseRetryAfter(a.Header.Get("Retry-After"), time.Now())
	}
	if isRedirect(a.StatusCode) {
		r.Failure = timer.FailureRedirect
		r.Error = a.redirectText()
	}
	if a.note != "" {
		r.Error += ": " + a.note
	}
	r.Error = oneLine(r.Error)
}

// accepts returns whether the receiver says that it accepts the fire and completes it later.
func accepts(q *Request, resp *http.Response) bool {
	return q.Target.Async > 0 && q.Token != "" && resp.StatusCode == http.StatusAccepted &&
		strings.EqualFold(resp.Header.Get(HeaderAccepted), acceptedAsync)
}

// accepted fills in the result of an acceptance. A receiver that did not get the token, because a
// redirect led to it, cannot complete the fire. Its attempt has failed at once, instead of after
// the whole time of async.
func (r *Result) accepted(q *Request, resp *http.Response) {
	if sent := resp.Request; sent.Header.Get(HeaderToken) == "" {
		r.Class, r.Failure = Retry, timer.FailureRedirect
		r.Error = oneLine(fmt.Sprintf(
			"accepted without %s, which a redirect to another origin does not send, so it cannot "+
				"be completed: set the target's url to that of the redirect, at %s",
			HeaderToken, sent.URL.Host))
		return
	}
	var err error
	r.Class = Accepted
	r.CompleteWithin, err = completeWithin(resp.Header.Get(HeaderWithin), q.Target.Async)
	if err != nil {
		r.Error = oneLine(err.Error())
	}
}

// answerHeaders are the headers of an answer that help to understand it. Cookies and other
// credentials are not among them.
var answerHeaders = []string{
	"Allow",
	"Content-Encoding",
	"Content-Length",
	"Content-Type",
	"Date",
	"Location",
	"Retry-After",
	"Server",
	"Traceparent",
	"Via",
	"Www-Authenticate",
	"X-Request-Id",
	HeaderAccepted,
	HeaderWithin,
}

// shownHeaders returns those of answerHeaders that an answer has, each as one line of at most
// timer.MaxExcerpt bytes.
func shownHeaders(h http.Header) map[string]string {
	out := make(map[string]string)
	for _, name := range answerHeaders {
		if values := h.Values(name); len(values) > 0 {
			out[name] = oneLine(strings.Join(values, ", "))
		}
	}
	return out
}

// completeWithin returns how long a receiver may take to complete a fire. If it cannot read what the
// receiver wrote, the target's time applies and the error says so: the fire is accepted, so it
// cannot be refused any more.
func completeWithin(text string, most timer.Duration) (time.Duration, error) {
	if text == "" {
		return time.Duration(most), nil
	}
	d, err := timer.ParseDuration(text)
	if err != nil || d <= 0 {
		return time.Duration(most), fmt.Errorf(
			"accepted, with a %s that is not a duration such as 30s or 5m: %q; the target's async of %s applies",
			HeaderWithin,
			clip(text),
			time.Duration(most),
		)
	}
	return time.Duration(min(d, most)), nil
}

// matchBody reads a body and matches the success rule. A body that breaks off succeeds if the part
// received matches.
func (h *HTTP) matchBody(
	ctx context.Context,
	rule string,
	resp *http.Response,
	r Result,
	timeout time.Duration,
) Result {
	re, err := h.rules.get(rule)
	if err != nil {
		return invalidResult(err)
	}
	body, err := readBody(resp.Body, maxRuleBody)
	r.Excerpt = truncate(string(body[:min(len(body), timer.MaxExcerpt+4)]))
	matches, late := h.rules.match(resp.Request.Context(), re, body)
	if err == nil && ctx.Err() != nil {
		err = late
	}
	switch {
	case matches:
		return r
	case err != nil:
		f := failedResult(
			ctx,
			resp.Request.Context(),
			fmt.Errorf("reading the body for the success rule: %w", err),
			timeout,
		)
		if f.Failure == timer.FailureTimeout {
			f.Error = fmt.Sprintf(
				"answered %s, but the body, which the success rule needs, did not end within %s",
				statusLine(resp),
				timeout,
			)
		}
		f.StatusCode, f.Excerpt, f.Headers = r.StatusCode, r.Excerpt, r.Headers
		return f
	case late != nil:
		r.Error = fmt.Sprintf(
			"answered %s, but others kept the success rule from being tried within %s",
			statusLine(resp),
			timeout,
		)
	default:
		r.Error = "answered " + statusLine(resp) +
			" with a body that the success rule does not match"
	}
	r.Class, r.Failure = Retry, timer.FailureRule
	return r
}

// parseRetryAfter parses seconds or a date. Invalid values and past dates are 0.
func parseRetryAfter(text string, now time.Time) time.Duration {
	if text == "" {
		return 0
	}
	if n, err := strconv.ParseUint(text, 10, 63); err == nil {
		return time.Duration(min(n, uint64(timer.MaxRetryAfter/time.Second))) * time.Second
	} else if errors.Is(err, strconv.ErrRange) {
		return timer.MaxRetryAfter
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0
	}
	return min(max(at.Sub(now), 0), timer.MaxRetryAfter)
}

func statusLine(resp *http.Response) string {
	return strings.TrimSpace(
		fmt.Sprintf("%d %s", resp.StatusCode, http.StatusText(resp.StatusCode)),
	)
}
