package gateway

// Renew replaces the local server at once, as if the functions had changed.
func Renew(g *Gateway) error {
	g.importing.mu.Lock()
	defer g.importing.mu.Unlock()
	return g.importing.renewLocked()
}

// PlacesOf returns how many places each server of another machine can be reached by.
func PlacesOf(g *Gateway) (counts []int) {
	g.remotes.mu.Lock()
	defer g.remotes.mu.Unlock()
	for _, r := range g.remotes.all {
		r.mu.Lock()
		counts = append(counts, len(r.places))
		r.mu.Unlock()
	}
	return counts
}

// DirectOf returns the address at which the only server of another machine is to be called directly.
func DirectOf(g *Gateway) string {
	g.remotes.mu.Lock()
	defer g.remotes.mu.Unlock()
	for _, r := range g.remotes.all {
		return r.directAddress()
	}
	return ""
}
