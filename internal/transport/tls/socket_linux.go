package tls

import (
	"net"

	"github.com/nearcall/nearcall/internal/transport"
	"golang.org/x/sys/unix"
)

// droppedBytesMax bounds what is dropped of what a peer has sent.
const droppedBytesMax = 256 << 10

// dropInput drops what has arrived and was not read.
func dropInput(socket net.Conn) {
	raw := transport.RawOf(socket)
	if raw == nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		scratch := make([]byte, 4<<10)
		for dropped := 0; dropped < droppedBytesMax; {
			n, _, err := unix.Recvfrom(int(fd), scratch, unix.MSG_DONTWAIT)
			if n <= 0 || err != nil {
				return
			}
			dropped += n
		}
	})
}
