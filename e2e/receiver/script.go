package receiver

import (
	"net/http"
	"sync"
	"time"

	"github.com/carillon-timer/carillon/libs/timer"
)

// Script defines the answers of a path.
type Script struct {
	// Statuses are the answers to a fire's first, second, … arrival. The last one repeats. Empty is
	// 200.
	Statuses []int
	// Delay is the delay of each answer.
	Delay time.Duration
	// Hang holds every answer until the receiver closes or the path gets another script.
	Hang bool
	// Body is the body of each answer.
	Body string
	// Header is set on each answer.
	Header map[string]string
	// Keep stores complete requests, for Requests.
	Keep bool
}

// Request is a complete request on a path whose script has Keep.
type Request struct {
	Method, URI string
	Header      http.Header
	Body        []byte
	Fire        timer.FireID
	Arrived     time.Time
}

// path is the state of one path.
type path struct {
	script   Script
	replaced chan struct{} // closed when another script replaces this one

	mu    sync.Mutex
	count map[timer.FireID]int
	kept  []Request
}

func newPath(s Script) *path {
	return &path{script: s, replaced: make(chan struct{}), count: make(map[timer.FireID]int)}
}

// status returns the status for the fire's next arrival.
func (p *path) status(f timer.FireID) int {
	s := p.script.Statuses
	switch len(s) {
	case 0:
		return http.StatusOK
	case 1:
		return s[0]
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	n := p.count[f]
	p.count[f] = n + 1
	return s[min(n, len(s)-1)]
}
