package gateway

import "github.com/nearcall/nearcall/server"

// elsewhere returns the options of a function that tell callers where to call it without the
// gateway.
func (g *Gateway) elsewhere(*imported) []server.FunctionOption { return nil }
