package callback

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	carillonv1 "github.com/carillon-timer/carillon/proto/gen/carillon/v1"
)

// GRPCOptions configure a gRPC caller. The zero value is safe.
type GRPCOptions struct {
	NetOptions

	AllowPrivate bool          // as in HTTPOptions
	DialTimeout  time.Duration // default 5 s
	Tokens       *HTTP         // fetches OAuth2 tokens; nil: targets with OAuth2 are rejected
}

const (
	// maxAnswerBytes limits the size of a DeliverResponse.
	maxAnswerBytes = 64 << 10
	// answerWindow is how much of an answer a server may send ahead of its reading. It is not larger
	// than maxAnswerBytes, and fixed, so that the end of a message that is too large is never there
	// when its size is refused.
	answerWindow = maxAnswerBytes
)

// GRPC calls targets through the service carillon.v1.Callback. Calls of an app with the same address,
// egress policy and TLS options share connections.
type GRPC struct {
	o        GRPCOptions
	channels *channels
}

var _ Caller = (*GRPC)(nil)

// NewGRPC returns a gRPC caller. Close it to close its connections.
func NewGRPC(o GRPCOptions) (*GRPC, error) {
	if o.DialTimeout < 0 || o.IdleTimeout < 0 {
		return nil, errors.New("options of the gRPC caller: times must not be negative")
	}
	o.setDefaults(o.AllowPrivate)
	setDefault(&o.DialTimeout, 5*time.Second)
	g := &GRPC{o: o}
	var err error
	if g.channels, err = newChannels(&g.o); err != nil {
		return nil, err
	}
	return g, nil
}

// Close closes the connections once calls in flight have ended.
func (g *GRPC) Close() { g.channels.close() }

// Call makes one attempt. It returns when r.Timeout has passed or ctx ends.
func (g *GRPC) Call(ctx context.Context, r *Request) Result {
	timeout := r.Timeout
	if timeout <= 0 {
		timeout = DefaultTimeout
	}
	callCtx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	address, secure, err := parseAddress(r.Target.URL, "grpc", "grpcs")
	if err != nil {
		return invalidResult(fmt.Errorf("url: %w", err))
	}
	secrets, err := openHeaders(g.o.Secrets, g.o.ReservedHeader, r)
	if err != nil {
		return invalidResult(err)
	}
	policy := g.o.policy(r)
	var token string
	var cached bool
	if r.Target.OAuth2 != nil {
		if g.o.Tokens == nil || !secure {
			return invalidResult(errors.New("oauth2 cannot be used here"))
		}
		token, cached, err = g.o.Tokens.tokens.get(callCtx, r.App, policy, r.Target.OAuth2)
		if err != nil {
			return redactResult(tokenFailure(ctx, callCtx, err, timeout), r, secrets)
		}
		secrets = append(
			secrets,
			secretHeader{"Authorization", "Bearer " + token},
			secretHeader{"", token},
		)
	}
	msg, md, err := message(r, secrets)
	if err != nil {
		return invalidResult(err)
	}
	ch, err := g.channels.get(policy, channelKey{
		app:       r.App,
		address:   address,
		secure:    secure,
		transport: transportKeyOf(policy.Key(), r.App, &r.Target),
	})
	if err != nil {
		return invalidResult(err)
	}
	defer ch.release()
	var seen response
	resp, err := deliver(metadata.NewOutgoingContext(callCtx, md), ch.conn, msg, &seen)
	if err != nil {
		res := answeredError(err)
		if !seen.answered(callCtx, err) {
			res = unanswered(ctx, callCtx, r, err, ch, &seen, timeout)
			if status.Code(err) == codes.Unavailable && !seen.headers.Load() {
				ch.noAnswer()
			}
		}
		if status.Code(err) == codes.Unauthenticated && r.Target.OAuth2 != nil {
			g.o.Tokens.tokens.drop(r.App, policy, r.Target.OAuth2, token)
			if cached {
				res.Error = oneLine(res.Error + ": " + cachedTokenRefused)
			}
		}
		return redactResult(res, r, secrets)
	}
	res := Result{Excerpt: truncate(resp.GetMessage())}
	if resp.GetAccepted() && r.Target.Async > 0 && r.Token != "" {
		res.Class = Accepted
		res.CompleteWithin = time.Duration(r.Target.Async)
		if ms := resp.GetCompleteWithinMs(); ms > 0 && ms < res.CompleteWithin.Milliseconds() {
			res.CompleteWithin = time.Duration(ms) * time.Millisecond
		}
	}
	return redactResult(res, r, secrets)
}

// message builds the request message and its metadata.
func message(r *Request, secrets []secretHeader) (*carillonv1.DeliverRequest, metadata.MD, error) {
	e := newExpander(r)
	body, err := e.body(&r.Target)
	if err != nil {
		return nil, nil, err
	}
	md := make(metadata.MD, len(r.Target.Headers)+len(secrets)+maxOwnHeaders)
	for name, values := range r.Target.Headers {
		if values, err = e.header(name, values); err != nil {
			return nil, nil, err
		}
		md[strings.ToLower(name)] = trimAll(values)
	}
	for _, s := range secrets {
		if s.name != "" {
			md[strings.ToLower(s.name)] = []string{trimBlanks(s.value)}
		}
	}
	var o headerList
	ownHeaders(&o, r, body)
	for i := range o.n {
		md[strings.ToLower(o.names[i])] = []string{o.values[i]}
	}
	// gRPC would report such values as its own internal error, and the attempt would be repeated.
	for name, values := range md {
		if !slices.ContainsFunc(values, func(v string) bool { return !printable(v) }) {
			continue
		}
		return nil, nil, fmt.Errorf("header %s %s", name, notPrintable)
	}
	cause := r.Cause
	if cause == "" {
		cause = defaultCause
	}
	msg := &carillonv1.DeliverRequest{
		FireId:    r.Fire.String(),
		TimerId:   int64(r.Fire.Timer),
		DueMs:     r.Fire.DueMS,
		Series:    r.Fire.Series,
		Attempt:   r.Attempt,
		App:       r.App,
		TimerName: r.Name,
		Cause:     cause,
		Labels:    r.Labels,
		Body:      []byte(body),
	}
	if r.Target.Async > 0 {
		msg.CompletionToken = r.Token
	}
	return msg, md, nil
}
