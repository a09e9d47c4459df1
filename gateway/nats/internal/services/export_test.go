package services

import "github.com/nats-io/nats.go"

// ParseRequest returns the arguments and the name of the call that a message asks for.
func ParseRequest(m *nats.Msg) (arguments []byte, name string, err error) {
	r, err := parseRequest(m)
	if err != nil {
		return nil, "", err
	}
	return r.arguments, r.name, nil
}
