package wire

// IsPlain and Check are the two ways by which a parser lets a header through.
func (p *Parser) IsPlain(h *Header) bool { return p.isPlain(h) }

// Check is the other.
func (p *Parser) Check(h *Header) error { return p.check(h) }
