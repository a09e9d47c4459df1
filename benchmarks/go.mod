module github.com/nearcall/nearcall/benchmarks

go 1.26.0

require (
	github.com/nearcall/nearcall v0.0.0
	golang.org/x/sys v0.49.0
)

replace github.com/nearcall/nearcall => ../
