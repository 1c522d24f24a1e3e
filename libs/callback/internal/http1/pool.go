package http1

import (
	"container/list"
	"sync"
	"time"
)

// sweepEvery is how often a pool looks for connections that are to be closed.
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

// sweepIdle closes the connections that were idle for too long, and those that the other end has
// closed.
func (p *pool) sweepIdle() {
	before := time.Now().Add(-p.timeout)
	for _, c := range p.take(func(c *conn) bool { return c.idleSince.Before(before) || !alive(c.Conn) }) {
		_ = c.Close()
	}
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
	for _, c := range p.take(func(*conn) bool { return true }) {
		_ = c.Close()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.n == 0 && p.sweep != nil {
		p.sweep.Stop()
		p.sweep = nil
	}
}

// take removes the connections for which a function is true. It may be called for thousands of
// connections under the lock, and must take microseconds.
func (p *pool) take(which func(*conn) bool) []*conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []*conn
	for address, l := range p.byHost {
		for e := l.Front(); e != nil; {
			next := e.Next()
			if c, _ := e.Value.(*conn); which(c) {
				out = append(out, p.remove(address, l, e))
			}
			e = next
		}
	}
	return out
}
