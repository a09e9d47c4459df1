package tls

import "net"

const (
	// recordBytesMax is what one record of TLS carries at most.
	recordBytesMax = 16 << 10
	// Buffers below this size are joined, so that each does not become a record.
	joinedBytesMax = 4 << 10
)

// parts divides buffers into parts that are sealed one after the other.
type parts struct {
	left   net.Buffers
	joined []byte
}

// next returns the next part, or nothing at the end. It is valid until the next call.
func (p *parts) next() []byte {
	for len(p.left) > 0 && len(p.left[0]) == 0 {
		p.left = p.left[1:]
	}
	switch {
	case len(p.left) == 0:
		return nil
	case len(p.left[0]) < joinedBytesMax && len(p.left) > 1:
		return p.join()
	}
	return p.cut(sealedBytesMax)
}

// join copies so many of the next bytes as fit into a record.
func (p *parts) join() []byte {
	p.joined = p.joined[:0]
	for len(p.left) > 0 && len(p.joined) < recordBytesMax {
		p.joined = append(p.joined, p.cut(recordBytesMax-len(p.joined))...)
	}
	return p.joined
}

// cut takes at most so many bytes of the first buffer.
func (p *parts) cut(most int) []byte {
	first := p.left[0]
	if len(first) <= most {
		p.left = p.left[1:]
		return first
	}
	p.left[0] = first[most:]
	return first[:most]
}
