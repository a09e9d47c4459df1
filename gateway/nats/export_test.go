package gateway

// Renew replaces the local server at once, as if the functions had changed.
func Renew(g *Gateway) error {
	g.importing.mu.Lock()
	defer g.importing.mu.Unlock()
	return g.importing.renewLocked()
}
