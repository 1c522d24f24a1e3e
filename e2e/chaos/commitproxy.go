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

// commitProxy is a proxy before MariaDB that can drop the answers to COMMIT. It forwards the COMMIT
// and closes the connection instead of forwarding the answer. So the transaction takes effect, and
// the client does not learn of it. A proxy that does not know the protocol cannot do that.
type commitProxy struct {
	ln           net.Listener
	target       string
	wg           sync.WaitGroup
	oneOf        atomic.Int64 // drops one answer of so many; 0: none
	commits      atomic.Int64
	droppedCount atomic.Int64

	mu     sync.Mutex
	conns  map[net.Conn]struct{}
	closed bool
}

// startCommitProxy starts a proxy before the servers' MariaDB and writes its address into the DSN.
func startCommitProxy(ctx context.Context, s *cluster.Servers) (*commitProxy, error) {
	user, rest, ok := strings.Cut(s.MySQLDSN, "@tcp(")
	addr, database, ok2 := strings.Cut(rest, ")")
	if !ok || !ok2 {
		return nil, fmt.Errorf("the DSN %q has no TCP address", s.MySQLDSN)
	}
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listening for a proxy: %w", err)
	}
	t := &commitProxy{ln: ln, target: addr, conns: make(map[net.Conn]struct{})}
	s.MySQLDSN = user + "@tcp(" + ln.Addr().String() + ")" + database
	t.wg.Go(t.accept)
	return t, nil
}

// dropAnswers makes the proxy drop the answer to one COMMIT of oneOf; 0 stops that.
func (t *commitProxy) dropAnswers(oneOf int64) { t.oneOf.Store(oneOf) }

// dropped returns the number of dropped answers.
func (t *commitProxy) dropped() int64 { return t.droppedCount.Load() }

func (t *commitProxy) close() {
	_ = t.ln.Close()
	t.mu.Lock()
	t.closed = true
	for c := range t.conns {
		_ = c.Close()
	}
	t.mu.Unlock()
	t.wg.Wait()
}

func (t *commitProxy) accept() {
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

func (t *commitProxy) serve(in net.Conn) {
	defer in.Close()
	out, err := net.Dial("tcp", t.target) //nolint:noctx // a server on this host
	if err != nil {
		return
	}
	defer out.Close()
	if !t.track(in, out) {
		return
	}
	defer t.untrack(in, out)
	var dropping atomic.Bool // the server's packets are no longer forwarded
	var wg sync.WaitGroup
	wg.Go(func() {
		defer in.Close()
		defer out.Close()
		_ = t.forward(in, out, func([]byte) bool { return !dropping.Load() })
	})
	_ = t.forward(out, in, func(b []byte) bool {
		if t.dropsAnswer(b) {
			dropping.Store(
				true,
			) // before the server sees the COMMIT, so that no answer gets through
		}
		return true
	})
	_ = out.Close()
	wg.Wait()
}

func (t *commitProxy) track(in, out net.Conn) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.closed {
		t.conns[in], t.conns[out] = struct{}{}, struct{}{}
	}
	return !t.closed
}

func (t *commitProxy) untrack(in, out net.Conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.conns, in)
	delete(t.conns, out)
}

// dropsAnswer reports whether to drop the answer to this packet. A COMMIT query comes alone,
// because the client waits for its answer.
func (t *commitProxy) dropsAnswer(packet []byte) bool {
	const header, query = 4, 0x03
	oneOf := t.oneOf.Load()
	if oneOf == 0 || len(packet) <= header || packet[header] != query ||
		!bytes.EqualFold(packet[header+1:], []byte("commit")) {
		return false
	}
	if t.commits.Add(1)%oneOf != 0 {
		return false
	}
	t.droppedCount.Add(1)
	return true
}

// forward copies until the end of from, or until forwards returns false.
func (t *commitProxy) forward(to io.Writer, from io.Reader, forwards func([]byte) bool) error {
	b := make([]byte, 32<<10)
	for {
		n, err := from.Read(b)
		if n > 0 {
			if !forwards(b[:n]) {
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
