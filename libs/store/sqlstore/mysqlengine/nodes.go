package mysqlengine

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/carillon-timer/carillon/libs/store/sqlstore/engine"
	"github.com/carillon-timer/carillon/libs/timer"
)

// Several addresses: a node that does not connect within connectTime is left for another one. Each
// node in use is examined every watchTime. The other numbers are of such looks in a row.
const (
	connectTime = time.Second
	watchTime   = 300 * time.Millisecond
	answerTime  = 800 * time.Millisecond
	// maxSilent: a node that does not answer within answerTime so often is left. A single time may be
	// a stall of this process.
	maxSilent = 2
	// maxTransfers: a donor is left. One that only sends what a node missed is in sync again before.
	maxTransfers = 3
	// maxRetired: a donor has its connections closed. Together, that is less than 3 s.
	maxRetired = maxTransfers + 5
	// minServing: a node that was left is preferred again, after 10 s. A Galera node that was stopped
	// or cut off calls itself in sync until it knows better, and commits nothing.
	minServing = 33
)

// nodes connects to the first of its nodes that serves. All processes with one list therefore write
// on one node, and on another when that one fails. For a while, some may write on both: the store
// relies on no lock that only one of them knows.
//
// A node that stops answering would keep its connections until each statement's deadline. So one
// goroutine per node in use examines it, and closes the connections to a node that does not serve.
// A transaction that loses its connection before the commit is repeated on another node. One that
// loses it in the commit may have been committed or not, and what it claimed waits until that is
// known. So the donor of a node that joins, which still commits, may end its transactions first. While
// no other node serves, a donor is used: how long it sends its data depends on how much there is.
type nodes struct {
	list []*node
	have engine.Capabilities
	used inUse

	mu     sync.Mutex
	found  engine.Capabilities // those that every server had
	closed bool
	ctx    context.Context //nolint:containedctx // of the goroutines, ended by close
	cancel context.CancelFunc
	wait   sync.WaitGroup
}

// node is one of several addresses, or the only one.
type node struct {
	addr      string
	connector driver.Connector
	probe     driver.Connector // its connections are not counted

	mu      sync.Mutex
	conns   map[*nodeConn]struct{}
	watched bool
	down    bool  // other nodes are tried first
	left    bool  // down, and not only because a connection could not be opened
	serving bool  // it served when it was examined last
	why     error // the last reason for down; it stays when the node serves again
	retired int   // connections with a number up to this one run nothing new
	opened  int   // number of the connection that was opened last
}

var _ driver.Connector = (*nodes)(nil)

func newNodes(cfg *Config) (*nodes, error) {
	n := &nodes{have: cfg.Have, found: cfg.Have}
	for _, addr := range cfg.Addrs {
		nd := &node{addr: addr, conns: map[*nodeConn]struct{}{}}
		own := cfg.Clone()
		own.Addr = addr
		var err error
		if nd.probe, err = mysql.NewConnector(own); err != nil {
			return nil, timer.Invalid("dsn", err.Error())
		}
		if nd.connector = nd.probe; len(cfg.Addrs) > 1 {
			own = own.Clone()
			own.DialFunc = nd.dial
			if nd.connector, err = mysql.NewConnector(own); err != nil {
				return nil, timer.Invalid("dsn", err.Error())
			}
		}
		n.list = append(n.list, nd)
	}
	n.ctx, n.cancel = context.WithCancel(context.Background())
	return n, nil
}

func (n *nodes) capabilities() engine.Capabilities {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.found
}

// Driver returns the driver.
func (n *nodes) Driver() driver.Driver { return n.list[0].connector.Driver() }

// Connect returns a connection to the first node that serves, in the order of candidates.
func (n *nodes) Connect(ctx context.Context) (driver.Conn, error) {
	if len(n.list) == 1 {
		return n.open(ctx, n.list[0], false, false)
	}
	order, preferred, serving := n.candidates()
	var errs []error
	for tried, i := range order {
		nd := n.list[i]
		one, cancel := context.WithTimeout(ctx, connectTime)
		conn, err := n.open(one, nd, true, serving == 0)
		if err != nil && one.Err() != nil && ctx.Err() == nil {
			err = fmt.Errorf("no connection within %s: %w", connectTime, err)
		}
		cancel()
		if err == nil {
			n.used.use(n.list, i, tried < preferred && nd.isDown())
			n.watch(nd)
			return conn, nil
		}
		errs = append(errs, fmt.Errorf("%s: %w", nd.addr, err))
		over := ctx.Err() != nil // the caller's time is up, which says nothing about the node
		if !over {
			nd.setDown(err)
		}
		n.watch(nd)
		if over {
			break
		}
	}
	return nil, errors.Join(errs...)
}

// candidates returns the nodes in the order in which to try them: the preferred ones, those that were
// left and serve again, donors, and the rest, which may not even refuse a connection. It returns how
// many are preferred, and how many of all may serve.
func (n *nodes) candidates() (order []int, preferred, serving int) {
	var groups [4][]int
	for i, nd := range n.list {
		g := nd.rank()
		groups[g] = append(groups[g], i)
	}
	return slices.Concat(groups[:]...), len(groups[0]), len(groups[0]) + len(groups[1])
}

// open opens a connection and examines its server. It takes a donor only if told to, or if the node
// is in use.
func (n *nodes) open(
	ctx context.Context,
	nd *node,
	several, donor bool,
) (driver.Conn, error) {
	number := nd.number()
	conn, err := nd.connector.Connect(ctx)
	if err != nil {
		return nil, err //nolint:wrapcheck // database/sql looks at it
	}
	whole, ok := conn.(mysqlConn)
	if !ok {
		return nil, errors.Join(errors.New("unexpected driver connection type"), conn.Close())
	}
	found, err := prepare(ctx, whole, n.have, several)
	if errors.Is(err, errTransfers) && (donor || nd.isInUse()) {
		err = nil // the goroutine that examines the node decides when it is left
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	n.mu.Lock()
	n.found = n.found.And(found)
	n.mu.Unlock()
	served := &servedConn{mysqlConn: whole}
	if several {
		served.node, served.number = nd, number
	}
	return served, nil
}

// watch starts the goroutine that examines a node, unless it runs.
func (n *nodes) watch(nd *node) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed || !nd.beginWatch() {
		return
	}
	n.wait.Go(func() { n.examine(nd) })
}

// examine closes a node's connections when it does not serve, and tells when it serves again. It
// returns when the node serves and has no connections.
func (n *nodes) examine(nd *node) {
	p := &probe{connector: nd.probe, have: n.have}
	defer p.close()
	tick := time.NewTicker(watchTime)
	defer tick.Stop()
	for silent, transfers, serving := 0, 0, 0; ; {
		select {
		case <-n.ctx.Done():
			return
		case <-tick.C:
		}
		err := p.ask(n.ctx)
		if n.ctx.Err() != nil {
			return
		}
		if err == nil {
			silent, transfers = 0, 0
			if serving++; nd.serves(serving >= minServing) {
				return
			}
			continue
		}
		serving = 0
		switch {
		case errors.Is(err, errTransfers) && !n.othersServe(nd):
			transfers = 0
			nd.transfers(err)
		case errors.Is(err, errTransfers):
			if transfers++; transfers > maxRetired {
				nd.drop(err)
			} else if transfers > maxTransfers {
				nd.retire(err)
			}
		case errors.Is(err, context.DeadlineExceeded):
			if silent++; silent >= maxSilent {
				nd.drop(err)
			}
		default:
			nd.drop(err)
		}
	}
}

// probe asks a node whether it serves, on one connection for as long as it lasts.
type probe struct {
	connector driver.Connector
	have      engine.Capabilities
	conn      mysqlConn
}

func (p *probe) ask(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	err := p.askConn(ctx)
	if err != nil {
		p.close()
		if ctx.Err() != nil { // the driver may call it a broken connection
			err = fmt.Errorf("no answer within %s: %w", answerTime, ctx.Err())
		}
	}
	return err
}

func (p *probe) askConn(ctx context.Context) error {
	if p.conn == nil {
		conn, err := p.connector.Connect(ctx)
		if err != nil {
			return err //nolint:wrapcheck // the driver says what it was doing
		}
		p.conn, _ = conn.(mysqlConn)
	}
	_, err := prepare(ctx, p.conn, p.have, true)
	return err
}

func (p *probe) close() {
	if p.conn != nil {
		_ = p.conn.Close()
		p.conn = nil
	}
}

// close ends the goroutines.
func (n *nodes) close() {
	n.mu.Lock()
	n.closed = true
	n.mu.Unlock()
	n.cancel()
	n.wait.Wait()
}

// othersServe reports whether another node may serve, as far as is known.
func (n *nodes) othersServe(than *node) bool {
	return slices.ContainsFunc(n.list, func(nd *node) bool {
		return nd != than && nd.rank() <= 1
	})
}

// rank returns the node's group in candidates.
func (nd *node) rank() int {
	nd.mu.Lock()
	defer nd.mu.Unlock()
	switch {
	case !nd.down:
		return 0
	case nd.serving:
		return 1
	case errors.Is(nd.why, errTransfers):
		return 2
	}
	return 3
}

func (nd *node) isDown() bool {
	nd.mu.Lock()
	defer nd.mu.Unlock()
	return nd.down
}

// isInUse reports whether the node is examined, and was not left.
func (nd *node) isInUse() bool {
	nd.mu.Lock()
	defer nd.mu.Unlock()
	return nd.watched && !nd.down
}

func (nd *node) setDown(why error) {
	nd.mu.Lock()
	defer nd.mu.Unlock()
	nd.down, nd.serving, nd.why = true, false, why
}

// reason returns why the node was left last.
func (nd *node) reason() string {
	nd.mu.Lock()
	defer nd.mu.Unlock()
	if nd.why == nil {
		return ""
	}
	return nd.why.Error()
}

// transfers notes that a node which was left is a donor now. One in use stays so.
func (nd *node) transfers(why error) {
	nd.mu.Lock()
	defer nd.mu.Unlock()
	if nd.down {
		nd.serving, nd.why = false, why
	}
}

// retire makes the node's connections end with what they run now.
func (nd *node) retire(why error) {
	nd.mu.Lock()
	defer nd.mu.Unlock()
	nd.down, nd.left, nd.serving, nd.why = true, true, false, why
	nd.retired = nd.opened
}

// number returns the number of a new connection.
func (nd *node) number() int {
	nd.mu.Lock()
	defer nd.mu.Unlock()
	nd.opened++
	return nd.opened
}

// isRetired reports whether a connection is to run nothing new.
func (nd *node) isRetired(number int) bool {
	nd.mu.Lock()
	defer nd.mu.Unlock()
	return number <= nd.retired
}

// drop closes the node's connections.
func (nd *node) drop(why error) {
	nd.mu.Lock()
	nd.down, nd.left, nd.serving, nd.why = true, true, false, why
	conns := nd.conns
	nd.conns = map[*nodeConn]struct{}{}
	nd.mu.Unlock()
	for c := range conns {
		_ = c.TCPConn.Close()
	}
}

// beginWatch reports whether the caller is to examine the node.
func (nd *node) beginWatch() bool {
	nd.mu.Lock()
	defer nd.mu.Unlock()
	begins := !nd.watched
	nd.watched = true
	return begins
}

// serves notes that the node serves, for so long that it is preferred again, or not. It reports
// whether the node needs no watch any more.
func (nd *node) serves(long bool) bool {
	nd.mu.Lock()
	defer nd.mu.Unlock()
	nd.serving = true
	if long || !nd.left {
		nd.down, nd.left = false, false
	}
	nd.watched = nd.down || len(nd.conns) > 0
	return !nd.watched
}

func (nd *node) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err //nolint:wrapcheck // the driver returns it
	}
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return nil, errors.Join(errors.New("unexpected connection type"), conn.Close())
	}
	c := &nodeConn{TCPConn: tcp, node: nd}
	nd.mu.Lock()
	defer nd.mu.Unlock()
	nd.conns[c] = struct{}{}
	return c, nil
}

// nodeConn is a connection that its node knows.
type nodeConn struct {
	*net.TCPConn

	node *node
}

func (c *nodeConn) Close() error {
	c.node.mu.Lock()
	delete(c.node.conns, c)
	c.node.mu.Unlock()
	return c.TCPConn.Close() //nolint:wrapcheck // the driver returns it
}
