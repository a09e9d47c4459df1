package residentcheck

import (
	"encoding/hex"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// openOf returns what a process has open: files, but for those of residents, and connections
// of TCP. What cannot be read is not there.
func openOf(process int, own string) (names []string) {
	directory := fmt.Sprintf("/proc/%d/fd", process)
	entries, _ := os.ReadDir(directory)
	sockets := connections(process)
	for _, entry := range entries {
		name, err := os.Readlink(filepath.Join(directory, entry.Name()))
		if err != nil {
			continue
		}
		connection, isConnection := sockets[name]
		if isConnection {
			name = connection
		}
		if (isConnection || isOpenFile(name, own)) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

func isOpenFile(name, own string) bool {
	isElse := func(beginning string) bool { return strings.HasPrefix(name, beginning) }
	return strings.HasPrefix(name, "/") && !slices.ContainsFunc([]string{"/dev/", "/proc/", "/sys/", "/memfd:", own}, isElse)
}

// The columns of /proc/PID/net/tcp.
const (
	columnLocal  = 1
	columnRemote = 2
	columnInode  = 9
)

// connections are those of the process's network, by what the links of their descriptors say.
func connections(process int) map[string]string {
	found := map[string]string{}
	for _, table := range []string{"tcp", "tcp6"} {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", process, table))
		for line := range strings.Lines(string(text)) {
			columns := strings.Fields(line)
			if len(columns) > columnInode && strings.Contains(columns[columnRemote], ":") {
				found["socket:["+columns[columnInode]+"]"] = "the connection from " + endpoint(columns[columnLocal]) + " to " + endpoint(columns[columnRemote])
			}
		}
	}
	return found
}

// endpoint reads 0100007F:1F90: words of the machine's order, then the port.
func endpoint(text string) string {
	address, port, _ := strings.Cut(text, ":")
	number, err := strconv.ParseUint(port, 16, 16)
	bytes, failed := hex.DecodeString(address)
	if err != nil || failed != nil {
		return text
	}
	for word := range slices.Chunk(bytes, 4) {
		slices.Reverse(word)
	}
	ip, ok := netip.AddrFromSlice(bytes)
	if !ok {
		return text
	}
	return netip.AddrPortFrom(ip.Unmap(), uint16(number)).String()
}
