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

// Ports returns the local ports of the process's TCP connections: a callback that came from one of them is this process's. Freeze
// the process first, if it must not change meanwhile.
func (p *Process) Ports() (map[uint16]bool, error) {
	pid := p.PID()
	if pid == 0 {
		return nil, fmt.Errorf("%s does not run", p.Name)
	}
	inodes := make(map[string]bool)
	fds, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	if err != nil {
		return nil, fmt.Errorf("listing the files of %s: %w", p.Name, err)
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
			return nil, fmt.Errorf("listing the connections of %s: %w", p.Name, err)
		}
		portsOf(b, inodes, ports)
	}
	return ports, nil
}

// portsOf reads a table of /proc/net: the second field is the local address:port in hex, the tenth the socket's inode.
func portsOf(table []byte, inodes map[string]bool, ports map[uint16]bool) {
	const local, inode = 1, 9
	sc := bufio.NewScanner(bytes.NewReader(table))
	for sc.Scan() {
		f := strings.Fields(sc.Text())
		if len(f) <= inode || !inodes[f[inode]] {
			continue
		}
		if _, hex, ok := strings.Cut(f[local], ":"); ok {
			if n, err := strconv.ParseUint(hex, 16, 16); err == nil {
				ports[uint16(n)] = true
			}
		}
	}
}

// established counts the connections of a table of /proc/net whose local end is a port: the fourth field is the state, 01 an open one.
func established(table []byte, port string) int {
	const local, state = 1, 3
	n := 0
	want, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return 0
	}
	sc := bufio.NewScanner(bytes.NewReader(table))
	for sc.Scan() {
		f := strings.Fields(sc.Text())
		if len(f) <= state || f[state] != "01" {
			continue
		}
		if _, hex, ok := strings.Cut(f[local], ":"); ok {
			if got, err := strconv.ParseUint(hex, 16, 16); err == nil && got == want {
				n++
			}
		}
	}
	return n
}
