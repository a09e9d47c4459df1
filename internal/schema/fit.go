package schema

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
)

// Go programs encode by their own types. Whether these mean what the description of a
// function means is checked here, once, before anything is sent. This matters most for
// what looks alike on the wire, such as a duration and a number.

// FitArguments checks the types that a program passes against the parameters. A nil
// type stands for an untyped nil.
func (f *Function) FitArguments(have []reflect.Type) error {
	if err := f.CheckArgumentCount(len(have)); err != nil {
		return err
	}
	for i, t := range have {
		param, _ := f.ParamAt(i)
		if err := f.fitGoType(t, param.Type, sending); err != nil {
			return fmt.Errorf("argument %d (%s): %w", i+1, param.Name, err)
		}
	}
	return nil
}

// TakesBlocks reports whether all lists that may travel as blocks, in arguments of these
// types, have exactly the elements of the parameters' lists. Nobody converts a block.
func (f *Function) TakesBlocks(have []reflect.Type) bool {
	if f.CheckArgumentCount(len(have)) != nil {
		return false
	}
	for i, t := range have {
		param, _ := f.ParamAt(i)
		if param.Type.Kind == Any && isBlock(t) {
			continue // it says itself what its elements are
		}
		if f.fitGoType(t, param.Type, sendingBlocks) != nil {
			return false
		}
	}
	return true
}

// isBlock reports whether a type of the program is a list that may travel as one block.
func isBlock(t reflect.Type) bool {
	if t == nil {
		return false
	}
	made, _, err := programType(t)
	return err == nil && made.isBlock()
}

// FitResults checks that a program can hold what the function returns. have has one
// type for each result; if there is no result, it has one that can be nil.
func (f *Function) FitResults(have []reflect.Type) error {
	if len(f.Results) == 0 && len(have) == 1 {
		return fitNothing(have[0])
	}
	if len(have) != len(f.Results) {
		return fmt.Errorf("%s returns %d results, and the program takes %d", f.Name, len(f.Results), len(have))
	}
	for i, t := range have {
		if err := f.fitGoType(t, f.Results[i], receiving); err != nil {
			return fmt.Errorf("result %d: %w", i+1, err)
		}
	}
	return nil
}

func fitNothing(t reflect.Type) error {
	have, _, err := programType(t)
	if err == nil && !have.canBeNil() {
		err = fmt.Errorf("the program has %s, and the function returns nothing", have)
	}
	return err
}

// programType describes a type of the program. A type without a name is shown as Go
// writes it.
func programType(t reflect.Type) (Type, Types, error) {
	b := newTypeBuilder()
	made, err := b.build(t, "struct")
	return made, b.types, err
}

func (t Type) canBeNil() bool {
	return t.Kind == Optional || t.Kind == List || t.Kind == Map || t.Kind == Any
}

// A direction says which way values travel, as seen from the program.
type direction uint8

const (
	sending direction = iota
	receiving
	// sendingBlocks is sending, with lists that are not converted.
	sendingBlocks
)

// fitGoType compares a type of the program with one of the description.
func (f *Function) fitGoType(t reflect.Type, described Type, way direction) error {
	if t == nil {
		if described.canBeNil() {
			return nil
		}
		return fmt.Errorf("the program has nil, and the function takes %s", described)
	}
	have, types, err := programType(t)
	if err != nil {
		return err
	}
	fitting := fitting{program: types, function: f.Types, way: way, open: map[[2]string]bool{}}
	return fitting.compare(have, described)
}

// A fitting is one comparison of two types with all that they reach.
type fitting struct {
	program, function Types
	way               direction
	// open holds the pairs of structs that are being compared or were compared.
	open map[[2]string]bool
}

func (f *fitting) mismatch(have, described Type) error {
	if f.way == receiving {
		return fmt.Errorf("the program has %s, and the function returns %s", have, described)
	}
	return fmt.Errorf("the program has %s, and the function takes %s", have, described)
}

// compare compares two types. A nil, a number that is too large and the like are left
// to whoever decodes the value.
func (f *fitting) compare(have, described Type) error {
	switch {
	case have.Kind == Any || described.Kind == Any:
		return f.compareAny(have, described)
	case have.Kind == Optional:
		// A nil that the function does not take will be refused as a value.
		return f.compare(*have.Element, withoutOptional(described))
	case described.Kind == Optional:
		if f.way == receiving && have.Kind != List && have.Kind != Map {
			return fmt.Errorf("%w: use a pointer, for there may be none", f.mismatch(have, described))
		}
		return f.compare(have, *described.Element)
	case have.Kind == StructRef || described.Kind == StructRef:
		return f.compareStructs(have, described)
	case have.Kind == List && described.Kind == List:
		if f.way == sendingBlocks && have.isBlock() && !have.Equal(described) {
			return f.mismatch(have, described)
		}
		return within(f.compare(*have.Element, *described.Element), "in the list")
	case have.Kind == Map && described.Kind == Map:
		if !f.basic(have.Key, described.Key) {
			return f.mismatch(have, described)
		}
		return within(f.compare(*have.Element, *described.Element), "in the map")
	case have.Element == nil && described.Element == nil && f.basic(have.Kind, described.Kind):
		return nil
	}
	return f.mismatch(have, described)
}

// compareAny compares an any with another type. The value in an any is compared by
// whoever encodes or decodes it. What such a value cannot show is refused here.
func (f *fitting) compareAny(have, described Type) error {
	if f.way == sendingBlocks && f.program.holdBlocks(have) {
		return f.mismatch(have, described) // within an any a sender writes arrays
	}
	if have.Kind.IsDescriptor() || f.way == receiving && described.Kind.IsDescriptor() {
		return f.mismatch(have, described)
	}
	err := f.program.refuseDurations(have, errDurationInAny, map[string]bool{})
	if have.Kind == Any {
		err = f.function.refuseDurations(described, errDurationForAny, map[string]bool{})
	}
	if err != nil {
		return fmt.Errorf("%w: %w", f.mismatch(have, described), err)
	}
	return nil
}

// CheckAny refuses types that mean something else inside a value of type any: instead
// of a duration, its reader would find a number without a unit.
func CheckAny(t reflect.Type) error {
	have, types, err := programType(t)
	if err != nil {
		return err
	}
	return types.refuseDurations(have, errDurationInAny, map[string]bool{})
}

// refuseDurations looks into each struct once, and returns refusal for the first
// duration that it finds.
func (types Types) refuseDurations(t Type, refusal error, seen map[string]bool) error {
	switch {
	case t.Kind == Duration:
		return refusal
	case t.Element != nil:
		return types.refuseDurations(*t.Element, refusal, seen)
	case t.Kind != StructRef || seen[t.Struct]:
		return nil
	}
	seen[t.Struct] = true
	for _, field := range types[t.Struct].Fields {
		if err := types.refuseDurations(field.Type, refusal, seen); err != nil {
			return fmt.Errorf("field %s of %s: %w", field.Name, t.Struct, err)
		}
	}
	return nil
}

var (
	errDurationInAny  = errors.New("a duration in a value of type any would arrive as a number; pass the number, in a unit that both sides know")
	errDurationForAny = errors.New("a value of type any holds no duration, only numbers without a unit; use a type that has a time.Duration there")
)

func withoutOptional(t Type) Type {
	if t.Kind == Optional {
		return *t.Element
	}
	return t
}

func within(err error, place string) error {
	if err != nil {
		return fmt.Errorf("%s: %w", place, err)
	}
	return nil
}

// basic compares two kinds that hold no other types. The server checks the number in an
// argument before the function runs. The number in a result, which comes after that,
// must fit whatever it is.
func (f *fitting) basic(have, described Kind) bool {
	switch {
	case have == described:
		return true
	case f.way == receiving:
		return have == File && described == Connection || holds(have, described)
	case have.IsDescriptor():
		return described.IsDescriptor()
	}
	return have.isInteger() && described.Bits() > 0 || have.isFloat() && described.isFloat()
}

func (k Kind) isInteger() bool { return k.IsSigned() || k.IsUnsigned() }
func (k Kind) isFloat() bool   { return k == Float32 || k == Float64 }

// holds reports whether every number of one kind is one of the other.
func holds(wide, narrow Kind) bool {
	mantissa := map[Kind]int{Float32: 24, Float64: 53}
	switch {
	case wide.isFloat() && narrow.isFloat():
		return wide.Bits() >= narrow.Bits()
	case wide.isFloat() && narrow.isInteger():
		return mantissa[wide] >= narrow.Bits()
	case wide.IsSigned() && narrow.IsUnsigned():
		return wide.Bits() > narrow.Bits()
	case wide.IsSigned() && narrow.IsSigned(), wide.IsUnsigned() && narrow.IsUnsigned():
		return wide.Bits() >= narrow.Bits()
	}
	return false
}

// compareStructs compares structs by their fields, whatever they are called. A map may
// stand for a struct, and a struct for a map, if the map's values fit all of the
// fields.
func (f *fitting) compareStructs(have, described Type) error {
	switch {
	case have.Kind == StructRef && described.Kind == StructRef:
		return f.compareFields(have.Struct, described.Struct)
	case have.Kind == Map && have.Key == String:
		return f.compareEach(f.function[described.Struct], func(field Type) error { return f.compare(*have.Element, field) })
	case described.Kind == Map && described.Key == String:
		return f.compareEach(f.program[have.Struct], func(field Type) error { return f.compare(field, *described.Element) })
	}
	return f.mismatch(have, described)
}

func (f *fitting) compareEach(fields Struct, compare func(Type) error) error {
	for _, field := range fields.Fields {
		if err := compare(field.Type); err != nil {
			return fmt.Errorf("field %s: %w", field.Name, err)
		}
	}
	return nil
}

func (f *fitting) compareFields(have, described string) error {
	pair := [2]string{have, described}
	if f.open[pair] {
		return nil
	}
	f.open[pair] = true
	for _, field := range f.program[have].Fields {
		other, known := f.function.Field(described, field.Name)
		switch {
		case !known && (f.way != receiving || field.Type.Kind != Optional):
			return fmt.Errorf("the program's %s has the field %s, which the function's %s does not have", have, field.Name, described)
		case !known:
			continue
		}
		if err := f.compare(field.Type, other); err != nil {
			return fmt.Errorf("field %s of %s: %w", field.Name, have, err)
		}
	}
	if f.way == receiving {
		return nil
	}
	return f.complete(have, described)
}

// complete refuses a struct of the program that lacks fields, for which it would send
// zero values.
func (f *fitting) complete(have, described string) error {
	for _, field := range f.function[described].Fields {
		has := slices.ContainsFunc(f.program[have].Fields, func(own Field) bool { return own.Name == field.Name })
		if !has && field.Type.Kind != Optional {
			return fmt.Errorf("the program's %s lacks the field %s, %s, of the function's %s", have, field.Name, field.Type, described)
		}
	}
	return nil
}
