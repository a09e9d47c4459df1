package gateway

// A serverState says whether an exported server takes calls.
type serverState string

const (
	serverUp       serverState = "up"
	serverDraining serverState = "draining"
	serverDown     serverState = "down"
)
