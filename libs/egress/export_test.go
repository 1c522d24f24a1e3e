package egress

import "net"

// OwnListenersOn returns OwnListeners of a host with other interfaces.
func OwnListenersOn(addresses func() ([]net.Addr, error)) *OwnListeners {
	return &OwnListeners{addresses: addresses}
}
