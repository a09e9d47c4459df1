package handoff

// Questions returns how many answers the peer owes that somebody waits for.
func (p *Peer) Questions() int {
	p.link.mu.Lock()
	defer p.link.mu.Unlock()
	return len(p.link.questions)
}
