package cluster

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Ports returns the local ports of the process's TCP connections: a callback from one of them comes
// from this process. Freeze the process first if the ports must not change meanwhile.
func (p *Process) Ports() (map[uint16]bool, error) {
	pid := p.PID()
	if pid == 0 {
		return nil, fmt.Errorf("%s is not running", p.Name)
	}
	inodes := make(map[string]bool)
	fds, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	if err != nil {
		return nil, fmt.Errorf("listing the files of process %d: %w", pid, err)
	}
	for _, fd := range fds {
		if to, err := os.Readlink(fd); err == nil && strings.HasPrefix(to, "socket:[") {
			inodes[strings.TrimSuffix(strings.TrimPrefix(to, "socket:["), "]")] = true
		}
	}
	ports := make(map[uint16]bool)
	for _, table := range []string{"tcp", "tcp6"} {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", pid, table))
		if err != nil {
			return nil, fmt.Errorf("listing the connections of process %d: %w", pid, err)
		}
		portsOf(b, inodes, ports)
	}
	return ports, nil
}

// portsOf reads a table of /proc/net. Its second field is the local address:port in hex, the tenth
// the socket's inode.
func portsOf(table []byte, inodes map[string]bool, ports map[uint16]bool) {
	const local, inode = 1, 9
	sc := bufio.NewScanner(bytes.NewReader(table))
	for sc.Scan() {
		f := strings.Fields(sc.Text())
		if len(f) <= inode || !inodes[f[inode]] {
			continue
		}
		if n := portOf(f[local]); n != 0 {
			ports[n] = true
		}
	}
}

// portOf reads address:port in hex. It returns 0 for other text.
func portOf(field string) uint16 {
	_, hex, _ := strings.Cut(field, ":")
	n, err := strconv.ParseUint(hex, 16, 16)
	if err != nil {
		return 0
	}
	return uint16(n)
}

// established counts the open connections of a /proc/net table whose local end is the port. The
// fourth field is the state; 01 is established.
func established(table []byte, port string) int {
	const local, state = 1, 3
	n := 0
	sc := bufio.NewScanner(bytes.NewReader(table))
	for sc.Scan() {
		f := strings.Fields(sc.Text())
		if len(f) > state && f[state] == "01" && strconv.Itoa(int(portOf(f[local]))) == port {
			n++
		}
	}
	return n
}
