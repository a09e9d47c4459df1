//go:build !(gc && (amd64 || arm64) && go1.26 && !go1.27)

package invoke

import "reflect"

// On this platform, or with this version of Go, all functions are called by package reflect.
type (
	registers struct{ results reflect.Type }
	words     struct{}
)

func registersOf(reflect.Value) *registers { return nil }

func (*registers) place(*Function) {}

func (*registers) call(*Frame) {}

func (*registers) prepare(*Frame) {}
