// Package gateway makes functions callable from other machines, over the message engine NATS. A
// gateway exports functions of servers on its machine, and it serves functions of other machines
// at a local socket, so that their callers need to know nothing of where they run:
//
//	g, err := gateway.New(gateway.Config{
//		Listen:  "unix:/run/nearcall/gateway.sock",
//		Exports: []gateway.Export{{Name: "shop", Address: "unix:/run/shop.sock"}},
//	})
//	err = g.Run(ctx)
//
// Gateways carry connections between callers and servers through the engine (spec/bus.md), so
// deadlines, cancellation, outcomes, descriptions and metadata are those of every other call.
// They find each other by announcements (spec/gateway.md).
//
// The command `nearcall gateway` is this package with options for its Config.
package gateway
