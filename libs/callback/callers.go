package callback

import (
	"fmt"

	"github.com/carillon-timer/carillon/libs/egress"
)

// CallerOptions configure the callers of all kinds.
type CallerOptions struct {
	NetOptions

	Publisher TopicPublisher // for pulsar targets
	Topics    *egress.Topics // where pulsar targets may publish; nil: nowhere
	// OwnNamespace is "tenant/namespace" of Carillon itself, where nothing is published.
	OwnNamespace string

	tokens *HTTP // fetches OAuth2 tokens
}

// NewCallers returns a caller for each kind. Close closes their connections.
func NewCallers(o CallerOptions) (c Callers, closeAll func(), err error) {
	c = make(Callers, len(kinds)+1)
	var closers []func()
	closeAll = func() {
		for _, f := range closers {
			f()
		}
	}
	for _, k := range kinds {
		caller, closer, err := k.NewCaller(&o)
		if err != nil {
			closeAll()
			return nil, nil, fmt.Errorf("making the caller of %s: %w", k.Name(), err)
		}
		c[k.Name()] = caller
		if closer != nil {
			closers = append(closers, closer)
		}
	}
	return c, closeAll, nil
}

// NewCaller returns an HTTP caller, by which other kinds fetch tokens.
func (httpKind) NewCaller(o *CallerOptions) (Caller, func(), error) {
	h, err := NewHTTP(HTTPOptions{NetOptions: o.NetOptions})
	if err != nil {
		return nil, nil, err
	}
	o.tokens = h
	return h, h.Close, nil
}

func (grpcKind) NewCaller(o *CallerOptions) (Caller, func(), error) {
	g, err := NewGRPC(GRPCOptions{NetOptions: o.NetOptions, Tokens: o.tokens})
	if err != nil {
		return nil, nil, err
	}
	return g, g.Close, nil
}

func (pulsarKind) NewCaller(o *CallerOptions) (Caller, func(), error) {
	p, err := NewPulsar(PulsarOptions{
		Publisher:      o.Publisher,
		Topics:         o.Topics,
		Egress:         o.Egress,
		Secrets:        o.Secrets,
		ReservedHeader: o.ReservedHeader,
		OwnNamespace:   o.OwnNamespace,
	})
	if err != nil {
		return nil, nil, err
	}
	return p, nil, nil
}
