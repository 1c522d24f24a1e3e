package chaos

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/carillon-timer/carillon/e2e/cluster"
)

// thief stands before MariaDB and steals answers: it passes a COMMIT on, and breaks the connection
// instead of passing on what the server says. The transaction takes effect, and nobody is told. No
// proxy that knows no protocol can do that.
type thief struct {
	ln     net.Listener
	target string
	wg     sync.WaitGroup
	one    atomic.Int64 // of so many; 0: none
	seen   atomic.Int64
	stolen atomic.Int64

	mu    sync.Mutex
	conns map[net.Conn]struct{}
	ended bool
}

// startThief puts itself between everybody and the servers' MariaDB.
func startThief(ctx context.Context, s *cluster.Servers) (*thief, error) {
	user, rest, ok := strings.Cut(s.MySQLDSN, "@tcp(")
	addr, database, ok2 := strings.Cut(rest, ")")
	if !ok || !ok2 {
		return nil, fmt.Errorf("the DSN %q has no TCP address", s.MySQLDSN)
	}
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listening for a proxy: %w", err)
	}
	t := &thief{ln: ln, target: addr, conns: make(map[net.Conn]struct{})}
	s.MySQLDSN = user + "@tcp(" + ln.Addr().String() + ")" + database
	t.wg.Go(t.accept)
	return t, nil
}

// steal makes it steal the answer to one COMMIT of so many; 0 ends that.
func (t *thief) steal(oneOf int64) { t.one.Store(oneOf) }

// lost returns how many answers it has stolen.
func (t *thief) lost() int64 { return t.stolen.Load() }

func (t *thief) close() {
	_ = t.ln.Close()
	t.mu.Lock()
	t.ended = true
	for c := range t.conns {
		_ = c.Close()
	}
	t.mu.Unlock()
	t.wg.Wait()
}

func (t *thief) accept() {
	for {
		in, err := t.ln.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err == nil {
			t.wg.Go(func() { t.serve(in) })
		}
	}
}

func (t *thief) serve(in net.Conn) {
	defer in.Close()
	out, err := net.Dial("tcp", t.target) //nolint:noctx // a server on this host
	if err != nil {
		return
	}
	defer out.Close()
	if !t.keep(in, out) {
		return
	}
	defer t.forget(in, out)
	var robbed atomic.Bool // what the server says from now on is not passed on
	var wg sync.WaitGroup
	wg.Go(func() {
		defer in.Close()
		defer out.Close()
		_ = t.pass(in, out, func([]byte) bool { return !robbed.Load() })
	})
	_ = t.pass(out, in, func(b []byte) bool {
		if t.takes(b) {
			robbed.Store(true) // before the server sees the COMMIT, so that no answer slips through
		}
		return true
	})
	_ = out.Close()
	wg.Wait()
}

func (t *thief) keep(in, out net.Conn) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.ended {
		t.conns[in], t.conns[out] = struct{}{}, struct{}{}
	}
	return !t.ended
}

func (t *thief) forget(in, out net.Conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.conns, in)
	delete(t.conns, out)
}

// takes tells whether this packet's answer is to be stolen: a query COMMIT comes alone, since the
// client waits for its answer.
func (t *thief) takes(packet []byte) bool {
	const header, query = 4, 0x03
	one := t.one.Load()
	if one == 0 || len(packet) <= header || packet[header] != query ||
		!bytes.EqualFold(packet[header+1:], []byte("commit")) {
		return false
	}
	if t.seen.Add(1)%one != 0 {
		return false
	}
	t.stolen.Add(1)
	return true
}

// pass copies until an end, or until what was read is not to go on.
func (t *thief) pass(to io.Writer, from io.Reader, goesOn func([]byte) bool) error {
	b := make([]byte, 32<<10)
	for {
		n, err := from.Read(b)
		if n > 0 {
			if !goesOn(b[:n]) {
				return nil
			}
			if _, err := to.Write(b[:n]); err != nil {
				return err
			}
		}
		if err != nil {
			return err
		}
	}
}
