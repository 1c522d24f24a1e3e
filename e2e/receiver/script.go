package receiver

import (
	"net/http"
	"sync"
	"time"

	"github.com/carillon-timer/carillon/libs/timer"
)

// Script says how a path answers.
type Script struct {
	// Statuses answer a fire's first, second, … arrival; the last one stays. Empty is 200.
	Statuses []int
	// Delay is how long each answer waits.
	Delay time.Duration
	// Hang holds every answer until the receiver closes or the path gets another script.
	Hang bool
	// Body is the answer's.
	Body string
	// Header is set on each answer.
	Header map[string]string
	// Keep keeps the requests whole, for Requests.
	Keep bool
}

// Request is a request as it came, of a path whose script says Keep.
type Request struct {
	Method, URI string
	Header      http.Header
	Body        []byte
	Fire        timer.FireID
	Arrived     time.Time
}

// path is a script at work.
type path struct {
	script   Script
	replaced chan struct{} // closed when another script took the path

	mu    sync.Mutex
	count map[timer.FireID]int
	kept  []Request
}

func newPath(s Script) *path {
	return &path{script: s, replaced: make(chan struct{}), count: make(map[timer.FireID]int)}
}

// status returns the answer for the fire's next arrival.
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
