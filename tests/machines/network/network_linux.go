package network

import (
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	hostsMax = 200
	// What tbf(8) lets pass at once, and for how long it keeps frames that are too many. A frame
	// must fit.
	rateBurst   = "16kb"
	rateLatency = "100ms"
)

// A Network is a switch and the hosts at it. Its methods, and those of its hosts, may be called
// by several goroutines.
type Network struct {
	mu     sync.Mutex
	bridge *space
	hosts  []*Host
}

// A Host is a network namespace with a link to the switch, which is its device eth0.
type Host struct {
	Name    string
	Address netip.Addr

	network *Network
	space   *space
	relay   *relay // nil: a pair of virtual Ethernet devices
	silent  bool
	losses  float64
}

// New makes a network without hosts. Close ends it, and so does the end of the process.
func New() (*Network, error) {
	bridge, err := newSpace()
	if err != nil {
		return nil, err
	}
	n := &Network{bridge: bridge}
	if err := bridge.runAll("ip link add switch type bridge", "ip link set switch up"); err != nil {
		n.Close()
		return nil, err
	}
	return n, nil
}

// Close ends the network and all processes that were started on its hosts.
func (n *Network) Close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, host := range n.hosts {
		host.close()
	}
	n.bridge.close()
}

// Join adds a host. Its link passes frames as quickly as the kernel does.
func (n *Network) Join(name string) (*Host, error) { return n.join(name, false) }

// JoinFar adds a host whose frames pass through this process, which can delay them and hold them
// up.
func (n *Network) JoinFar(name string) (*Host, error) { return n.join(name, true) }

func (n *Network) join(name string, far bool) (*Host, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.hosts) == hostsMax {
		return nil, fmt.Errorf("a network has at most %d hosts", hostsMax)
	}
	own, err := newSpace()
	if err != nil {
		return nil, err
	}
	h := &Host{Name: name, network: n, space: own, Address: netip.AddrFrom4([4]byte{10, 213, 0, byte(len(n.hosts) + 1)})}
	n.hosts = append(n.hosts, h)
	if far {
		h.relay, err = newRelay(own, n.bridge, h.port())
	} else {
		err = own.runAll("ip link add eth0 type veth peer name " + h.port() + " netns " + n.bridge.path)
	}
	if err != nil {
		return nil, err
	}
	return h, all(
		func() error { return n.bridge.runAll("ip link set " + h.port() + " master switch up") },
		func() error {
			return own.runAll("ip link set lo up", "ip address add "+h.Address.String()+"/24 dev eth0", "ip link set eth0 up")
		},
	)
}

// port is the name of the host's device at the switch.
func (h *Host) port() string { return "port" + strconv.Itoa(int(h.Address.As4()[3])) }

func (h *Host) close() {
	if h.relay != nil {
		h.relay.close()
	}
	h.space.close()
}

// Start starts a program on the host, as exec.Cmd.Start does. It is killed when this process ends.
func (h *Host) Start(command *exec.Cmd) error { return h.space.start(command) }

// Do runs a function with the host's network: sockets that it makes by itself, and not in another
// goroutine, are the host's, for as long as they live.
func (h *Host) Do(work func() error) error { return h.space.do(work) }

// Clock returns what to put before a command so that the program's monotonic clock is ahead of
// this machine's by whole seconds, as that of another machine is.
func Clock(ahead time.Duration) []string {
	return []string{"unshare", "--time", "--monotonic", strconv.Itoa(int(ahead / time.Second)), "--"}
}

// Cut takes the host's link down, which its own kernel knows: connections to others fail at once.
// Heal puts it up again.
func (h *Host) Cut() error { return h.space.runAll("ip link set eth0 down") }

// Heal takes everything back that was done to the link, except its delay and its rate.
func (h *Host) Heal() error {
	if h.relay != nil {
		h.relay.hold(false)
	}
	return all(func() error { return h.space.runAll("ip link set eth0 up") }, func() error { return h.filter(false, 0) })
}

// Silence drops all frames from the host and to it, which nobody is told of.
func (h *Host) Silence() error { return h.filter(true, 0) }

// Lose drops that share of the frames of each direction at random.
func (h *Host) Lose(share float64) error { return h.filter(false, share) }

// Rate limits each direction of the link to so many bits a second; 0 takes the limit back.
func (h *Host) Rate(bits int) error {
	limit := func(s *space, device string) error {
		if bits == 0 {
			return s.runAll("tc qdisc delete dev " + device + " root")
		}
		return s.runAll(fmt.Sprintf("tc qdisc replace dev %s root tbf rate %dbit burst %s latency %s", device, bits, rateBurst, rateLatency))
	}
	return all(func() error { return limit(h.space, "eth0") }, func() error { return limit(h.network.bridge, h.port()) })
}

var errNear = errors.New("only frames of hosts that have joined as far ones can be delayed and held up")

// Delay delays each frame, in both directions, by a time drawn from delay to delay + jitter. Frames
// of a direction stay in order.
func (h *Host) Delay(delay, jitter time.Duration) error {
	if h.relay == nil {
		return fmt.Errorf("host %s: %w", h.Name, errNear)
	}
	h.relay.delay(delay, jitter)
	return nil
}

// Hold holds all frames up until Heal, which lets them go.
func (h *Host) Hold() error {
	if h.relay == nil {
		return fmt.Errorf("host %s: %w", h.Name, errNear)
	}
	h.relay.hold(true)
	return nil
}

func (h *Host) filter(silent bool, losses float64) error {
	h.network.mu.Lock()
	defer h.network.mu.Unlock()
	h.silent, h.losses = silent, losses
	return h.network.bridge.run(h.network.rules(), "nft", "-f", "-")
}

// rules are those of the switch, all in one transaction: what they were before does not matter.
func (n *Network) rules() string {
	var text strings.Builder
	text.WriteString("table bridge faults\ndelete table bridge faults\ntable bridge faults {\n chain passing {\n  type filter hook forward priority 0;\n")
	for _, h := range n.hosts {
		for _, direction := range []string{"iifname", "oifname"} {
			if h.silent {
				fmt.Fprintf(&text, "  %s %s drop\n", direction, h.port())
			}
			if h.losses > 0 {
				fmt.Fprintf(&text, "  %s %s numgen random mod 10000 <= %d drop\n", direction, h.port(), int(h.losses*10000)-1)
			}
		}
	}
	text.WriteString(" }\n}\n")
	return text.String()
}
