module github.com/nearcall/nearcall/benchmarks

go 1.26.0

require (
	github.com/nearcall/nearcall v0.0.0
	golang.org/x/sys v0.49.0
)

require (
	github.com/philhofer/fwd v1.2.0 // indirect
	github.com/tinylib/msgp v1.6.5 // indirect
)

replace github.com/nearcall/nearcall => ../
