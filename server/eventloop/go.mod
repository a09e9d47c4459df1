module github.com/nearcall/nearcall/server/eventloop

go 1.26.0

require (
	github.com/nearcall/nearcall v0.0.0
	github.com/nearcall/nearcall/internal/transport/eventloop v0.0.0
	golang.org/x/sys v0.49.0
)

require (
	github.com/bytedance/gopkg v0.1.1 // indirect
	github.com/cloudwego/gopkg v0.1.4 // indirect
	github.com/cloudwego/netpoll v0.7.2 // indirect
	github.com/philhofer/fwd v1.2.0 // indirect
	github.com/tinylib/msgp v1.6.5 // indirect
)

replace github.com/nearcall/nearcall => ../..

replace github.com/nearcall/nearcall/internal/transport/eventloop => ../../internal/transport/eventloop
