package egress_test

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/dns/dnsmessage"
)

func errorsAs[T error](err error, target *T) bool { return errors.As(err, target) }

// dns returns a connection to a name server that answers every question with the same addresses.
func dns(t *testing.T, addresses ...string) net.Conn {
	t.Helper()
	client, server := net.Pipe()
	go func() {
		defer func() { _ = server.Close() }()
		for {
			var length [2]byte
			if _, err := io.ReadFull(server, length[:]); err != nil {
				return
			}
			query := make([]byte, binary.BigEndian.Uint16(length[:]))
			if _, err := io.ReadFull(server, query); err != nil {
				return
			}
			var m dnsmessage.Message
			if m.Unpack(query) != nil {
				return
			}
			m.Response, m.Additionals = true, nil
			q := m.Questions[0]
			for _, a := range addresses {
				if q.Type == dnsmessage.TypeA {
					m.Answers = append(m.Answers, dnsmessage.Resource{
						Header: dnsmessage.ResourceHeader{
							Name: q.Name, Type: q.Type, Class: q.Class,
						},
						Body: &dnsmessage.AResource{A: netip.MustParseAddr(a).As4()},
					})
				}
			}
			answer, err := m.Pack()
			if err != nil {
				return
			}
			binary.BigEndian.PutUint16(length[:], uint16(len(answer)))
			if _, err := server.Write(append(length[:], answer...)); err != nil {
				return
			}
		}
	}()
	require.NotNil(t, client)
	return client
}
