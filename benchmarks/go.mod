module github.com/nearcall/nearcall/benchmarks

go 1.26.0

require (
	github.com/nearcall/nearcall v0.0.0
	github.com/nearcall/nearcall/resident/residentcobra v0.0.0
	github.com/spf13/cobra v1.10.2
	golang.org/x/perf v0.0.0-20260908200009-22c9c6c9d4da
	golang.org/x/sys v0.49.0
)

require (
	github.com/aclements/go-moremath v0.0.0-20210112150236-f10218a38794 // indirect
	github.com/inconshreveable/mousetrap v1.1.0 // indirect
	github.com/philhofer/fwd v1.2.0 // indirect
	github.com/spf13/pflag v1.0.9 // indirect
	github.com/tinylib/msgp v1.6.5 // indirect
)

replace github.com/nearcall/nearcall => ../

replace github.com/nearcall/nearcall/resident/residentcobra => ../resident/residentcobra

tool golang.org/x/perf/cmd/benchstat
