package client

import (
	"bytes"
	"reflect"
	"slices"

	"github.com/nearcall/nearcall/internal/msgpack"
	"github.com/nearcall/nearcall/internal/wire"
	"github.com/nearcall/nearcall/status"
)

// packsResult reports whether the place for the result of a call takes lists that travel as
// blocks.
func (c *core) packsResult(r *call) bool {
	t := r.dynamic.types.result
	if t == nil {
		return false
	}
	plan, err := c.planFor(t)
	return err == nil && plan.Packs() // whoever decodes the result reports the error
}

// unpack encodes a request anew for a server that does not take blocks, or for a function
// whose lists have other elements than the program's. The call keeps that form, which every
// server takes. A request without blocks has it already.
func (c *connection) unpack(r *call) *status.Error {
	if r.codec != wire.CodecPacked {
		return nil
	}
	accepted := c.welcome.Accepted&wire.FeaturePackedLists != 0
	if !accepted {
		r.codec = wire.CodecMessagePack
	}
	if !r.beside.Blocks || accepted && (r.function == nil || r.function.takesBlocks(r.argumentTypes())) {
		return nil
	}
	whole := r.payload
	if len(r.beside.Pieces) > 0 {
		whole = bytes.Join(r.beside.AppendParts(nil, r.payload), nil)
		r.beside.Drop()
	}
	// The array of arguments is not part of any value.
	plain, _, err := msgpack.AppendPlain(nil, whole, -1)
	if err != nil {
		return notExecuted(status.Internal, "the arguments cannot be written for a server that does not take these packed lists: %w", err)
	}
	r.beside.Blocks, r.payload = false, plain
	return nil
}

// argumentTypes returns the types of the arguments. A usage whose function takes any number
// of them names none.
func (r *call) argumentTypes() []reflect.Type {
	if types := r.usage.types.arguments; len(types) > 0 {
		return types
	}
	return r.dynamic.types.arguments
}

// A blockUse says whether a function takes blocks of arguments of these types.
type blockUse struct {
	arguments []reflect.Type
	takes     bool
}

// takesBlocks reports whether lists in arguments of these types may be sent as blocks.
func (f *describedFunction) takesBlocks(arguments []reflect.Type) bool {
	if known := f.blocks.Load(); known != nil {
		for i := range *known {
			if use := &(*known)[i]; slices.Equal(use.arguments, arguments) {
				return use.takes
			}
		}
	}
	return f.rememberBlocks(arguments)
}

// rememberBlocks finds out what takesBlocks reports, and remembers it as usages are.
func (f *describedFunction) rememberBlocks(arguments []reflect.Type) bool {
	use := blockUse{slices.Clone(arguments), f.TakesBlocks(arguments)}
	var all []blockUse
	if known := f.blocks.Load(); known != nil {
		all = (*known)[max(0, len(*known)+1-fittingMax):]
	}
	all = append(slices.Clone(all), use)
	f.blocks.Store(&all)
	return use.takes
}
