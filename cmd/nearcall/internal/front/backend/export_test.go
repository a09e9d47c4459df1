package backend

// Waiting is how many connections wait for a place at the backend's first socket.
func (b *Backend) Waiting() int {
	b.set.room.Lock()
	defer b.set.room.Unlock()
	return b.sockets[0].waiting.Len()
}
