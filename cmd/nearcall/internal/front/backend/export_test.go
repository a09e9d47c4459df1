package backend

// Waiting is how many connections wait for a place at the backend's first socket.
func (b *Backend) Waiting() int {
	b.set.room.Lock()
	defer b.set.room.Unlock()
	return b.sockets[0].waiting.Len()
}

// Taken is how many places of its processes are taken.
func (b *Backend) Taken() (taken int) {
	b.set.room.Lock()
	defer b.set.room.Unlock()
	for _, s := range b.sockets {
		if l := s.lane.Load(); l != nil {
			taken += l.given
		}
	}
	return taken
}
