package egress

import "net"

// OwnOn returns an Own of a host with other interfaces.
func OwnOn(addresses func() ([]net.Addr, error)) *Own { return &Own{addresses: addresses} }
