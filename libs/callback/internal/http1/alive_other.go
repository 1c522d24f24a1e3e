//go:build !unix

package http1

import "net"

// alive cannot tell here. A request on a closed connection fails and is sent again.
func alive(net.Conn) bool { return true }
