package mysqlengine

import (
	"sync"

	"github.com/rs/zerolog"

	"github.com/carillon-timer/carillon/libs/logging"
)

// Node says which of several nodes the process uses.
type Node struct {
	Addr      string `json:"node"`
	Preferred string `json:"preferred"`
	// Reason is why the preferred node was left; empty while it is in use.
	Reason string `json:"reason,omitempty"`
}

// inUse remembers which of several nodes new connections go to, and logs a change once, however many
// connections are opened at that time.
type inUse struct {
	mu  sync.Mutex
	log zerolog.Logger // the zero value logs nothing
	at  int            // index in the list; the process starts with the preferred node
}

// use notes that a connection to the i-th node was opened. late says that the node was found not to
// serve meanwhile: then the connection is about to end, and another node is used already.
func (u *inUse) use(list []*node, i int, late bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if late || i == u.at {
		return
	}
	left := list[u.at]
	returned := i < u.at // nodes before this one may still not serve
	u.at = i
	if returned && i == 0 {
		u.log.Info().Str(logging.LeftNode, left.addr).Str(logging.Node, list[i].addr).
			Str(logging.Reason, "the preferred node serves again").Msg(logging.NodePreferred)
		return
	}
	reason := "a node before it in the list serves again"
	if !returned {
		reason = left.reason()
	}
	u.log.Warn().Str(logging.LeftNode, left.addr).Str(logging.Node, list[i].addr).
		Str(logging.Reason, reason).Msg(logging.NodeChanged)
}

// node returns the node in use, or nil if there is only one.
func (u *inUse) node(list []*node) *Node {
	if len(list) == 1 {
		return nil
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	out := &Node{Addr: list[u.at].addr, Preferred: list[0].addr}
	if u.at > 0 {
		out.Reason = list[0].reason()
	}
	return out
}
