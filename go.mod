module github.com/nearcall/nearcall

go 1.26.0

require (
	github.com/tinylib/msgp v1.6.5
	golang.org/x/sys v0.49.0
)

require github.com/philhofer/fwd v1.2.0 // indirect
