package http1

import (
	"container/list"
	"sync"
	"time"
)

// sweepEvery is how often a pool looks for connections that have been idle for too long.
const sweepEvery = 10 * time.Second

// pool keeps idle connections. Of those to one address it gives out the one that was used last, so
// that what a peak left over can time out.
type pool struct {
	timeout      time.Duration
	max, perHost int

	mu     sync.Mutex
	byHost map[string]*list.List // of *conn, the longest idle first
	n      int
	sweep  *time.Timer // nil while no connection is idle
}

func newPool(timeout time.Duration, most, perHost int) pool {
	return pool{timeout: timeout, max: most, perHost: perHost, byHost: make(map[string]*list.List)}
}

// get takes a connection out of the pool, or returns nil.
func (p *pool) get(address string) *conn {
	for {
		c := p.pop(address)
		if c == nil || alive(c.Conn) {
			return c
		}
		_ = c.Close()
	}
}

func (p *pool) pop(address string) *conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.byHost[address]
	if l == nil {
		return nil
	}
	return p.remove(address, l, l.Back())
}

// remove takes out one connection. The caller holds the lock.
func (p *pool) remove(address string, l *list.List, e *list.Element) *conn {
	c, _ := l.Remove(e).(*conn)
	if p.n--; l.Len() == 0 {
		delete(p.byHost, address)
	}
	return c
}

// put keeps a connection. If there are too many, it closes one: of the same host, or else any.
func (p *pool) put(c *conn) {
	c.idleSince = time.Now()
	p.mu.Lock()
	var closed *conn
	l := p.byHost[c.address]
	switch {
	case l != nil && l.Len() >= p.perHost:
		closed = p.remove(c.address, l, l.Front())
	case p.n >= p.max:
		for address, other := range p.byHost {
			closed = p.remove(address, other, other.Front())
			break
		}
	}
	if l = p.byHost[c.address]; l == nil {
		l = list.New()
		p.byHost[c.address] = l
	}
	l.PushBack(c)
	p.n++
	if p.sweep == nil {
		p.sweep = time.AfterFunc(min(p.timeout, sweepEvery), p.sweepIdle)
	}
	p.mu.Unlock()
	if closed != nil {
		_ = closed.Close()
	}
}

// sweepIdle closes the connections that were idle for too long. Those that the other end has closed
// stay until they are taken or time out: looking at all sockets would hold up every call.
func (p *pool) sweepIdle() {
	p.closeBefore(time.Now().Add(-p.timeout))
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.n == 0 {
		p.sweep = nil
	} else if p.sweep != nil {
		p.sweep.Reset(min(p.timeout, sweepEvery))
	}
}

// clear closes all connections.
func (p *pool) clear() {
	p.closeBefore(time.Now().Add(time.Hour))
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.n == 0 && p.sweep != nil {
		p.sweep.Stop()
		p.sweep = nil
	}
}

// closeBefore closes the connections that have been idle since before an instant.
func (p *pool) closeBefore(at time.Time) {
	for _, c := range p.takeBefore(at) {
		_ = c.Close()
	}
}

func (p *pool) takeBefore(at time.Time) (out []*conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for address, l := range p.byHost {
		out = p.takeOldest(out, address, l, func(c *conn) bool { return c.idleSince.Before(at) })
	}
	return out
}

// closeAsOldAs closes the connections to the address of one that get returned which were idle
// already when it became idle for the last time. As get returns the last, that is all that it left,
// and none that has served a call since.
func (p *pool) closeAsOldAs(used *conn) {
	p.mu.Lock()
	var out []*conn
	if l := p.byHost[used.address]; l != nil {
		out = p.takeOldest(nil, used.address, l, func(c *conn) bool {
			return !c.idleSince.After(used.idleSince)
		})
	}
	p.mu.Unlock()
	for _, c := range out {
		_ = c.Close()
	}
}

// takeOldest takes the connections to one address out that have been idle for long enough. The caller
// holds the lock.
func (p *pool) takeOldest(
	out []*conn, address string, l *list.List, old func(*conn) bool,
) []*conn {
	for l.Len() > 0 {
		if c, _ := l.Front().Value.(*conn); !old(c) {
			break
		}
		out = append(out, p.remove(address, l, l.Front()))
	}
	return out
}
