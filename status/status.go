// Package status describes how a call failed: a code, an outcome, a message and
// details. Server and client share it.
//
//	_, err := client.Call[int64](ctx, c, "ack", 3, 4)
//	var failure *status.Error
//	if errors.As(err, &failure) && failure.Outcome == status.OutcomeNotExecuted {
//		// safe to send again
//	}
//	if errors.Is(err, status.NotFound) { ... }
//
// A function that is served returns an *Error, as Errorf makes it, to choose the
// code that its caller sees. The lists of codes and outcomes are generated from
// spec/errors.json, so they are the same in every language.
package status

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// A Code says what kind of failure it was. The numbers are those of gRPC. A Code
// is itself an error, so that errors.Is(err, status.NotFound) works.
type Code uint8

// String returns the code's name as the wire and other languages write it,
// such as "DEADLINE_EXCEEDED".
func (c Code) String() string {
	if int(c) < len(codeNames) {
		return codeNames[c]
	}
	return "CODE_" + strconv.Itoa(int(c))
}

// Error makes a Code an error, to be used as the target of errors.Is.
func (c Code) Error() string { return c.String() }

// ParseCode returns the code with the given name, such as "NOT_FOUND", and
// whether there is one.
func ParseCode(name string) (Code, bool) {
	for number, candidate := range codeNames {
		if candidate == name {
			return Code(number), true
		}
	}
	return OK, false
}

// An Outcome says whether the function of a failed call ran.
type Outcome uint8

// String returns the outcome in words, such as "not executed".
func (o Outcome) String() string {
	if int(o) < len(outcomeTexts) {
		return outcomeTexts[o]
	}
	return "outcome " + strconv.Itoa(int(o))
}

// A Detail is data that travels with an error. Type says what the data is, such
// as "nearcall.limit". Value may be anything that can be sent as the type any:
// nil, booleans, numbers, strings, bytes, times, and slices and maps of these.
type Detail struct {
	Type  string
	Value any
}

// An Error is the failure of a call. Functions return one to choose the code and
// the details. Clients return one for every call that failed.
type Error struct {
	Code    Code
	Outcome Outcome
	Message string
	Details []Detail

	// Cause is the local error behind this one, such as that of a system call.
	// It is not sent to the caller.
	Cause error
}

// Error returns the code, the message and the outcome as one line.
func (e *Error) Error() string {
	text := "nearcall: " + e.Code.String()
	if e.Message != "" {
		text += ": " + e.Message
	}
	if e.Outcome != OutcomeNone {
		text += " (" + e.Outcome.String() + ")"
	}
	return text
}

// Unwrap returns Cause.
func (e *Error) Unwrap() error { return e.Cause }

// Is reports whether target is this error's code, or the error of package context
// that means the same.
func (e *Error) Is(target error) bool {
	if code, ok := target.(Code); ok {
		return e.Code == code
	}
	return e.Code == DeadlineExceeded && target == context.DeadlineExceeded ||
		e.Code == Cancelled && target == context.Canceled
}

// Errorf returns an error with a code and a formatted message, for functions to
// return. An error that is formatted with %w becomes its Cause.
func Errorf(code Code, format string, args ...any) *Error {
	formatted := fmt.Errorf(format, args...)
	return &Error{Code: code, Message: textOf(formatted), Cause: errors.Unwrap(formatted)}
}

// With sets the outcome of e and returns e. It is meant for the place where the
// error is made; it does not copy.
func (e *Error) With(outcome Outcome) *Error {
	e.Outcome = outcome
	return e
}

// FromError returns err as an Error, and nil for nil. If err wraps an Error, the
// result has that one's code, outcome and details, and the text of the whole chain.
// A wrapped Code gives its code. The errors of package context become
// DEADLINE_EXCEEDED and CANCELLED, and all others UNKNOWN.
func FromError(err error) *Error {
	if err == nil {
		return nil
	}
	var known *Error
	if errors.As(err, &known) {
		if error(known) == err {
			return known
		}
		wrapped := *known
		wrapped.Message, wrapped.Cause = textOf(err), err
		return &wrapped
	}
	return &Error{Code: codeOf(err), Message: textOf(err), Cause: err}
}

// textOf returns the text of an error with each Error inside it reduced to its message.
// Error.Error puts the name, the code and the outcome around the whole, and they should
// not appear twice.
func textOf(err error) string {
	text := err.Error()
	var reduced strings.Builder
	misses := 0
	for _, inner := range errorsIn(err) {
		full := inner.Error()
		at := strings.Index(text, full)
		if at < 0 {
			if misses++; misses == missesMax {
				break
			}
			continue
		}
		reduced.WriteString(text[:at])
		reduced.WriteString(inner.bare())
		text = text[at+len(full):]
	}
	return strings.TrimPrefix(reduced.String()+text, "nearcall: ")
}

// missesMax is how many inner errors textOf looks for in vain. Each costs a look at the whole
// text, and there may be thousands of both; code that wraps errors nearly always shows them in
// their order.
const missesMax = 16

// bare returns the text of e without name, code and outcome.
func (e *Error) bare() string {
	if e.Message == "" {
		return e.Code.String()
	}
	return e.Message
}

// errorsIn returns the Errors that err wraps: its text may contain theirs.
func errorsIn(err error) (found []*Error) {
	switch e := err.(type) {
	case *Error:
		return []*Error{e}
	case interface{ Unwrap() error }:
		if inner := e.Unwrap(); inner != nil {
			return errorsIn(inner)
		}
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			found = append(found, errorsIn(inner)...)
		}
	}
	return found
}

func codeOf(err error) Code {
	var code Code
	switch {
	case errors.As(err, &code):
		return code
	case errors.Is(err, context.DeadlineExceeded):
		return DeadlineExceeded
	case errors.Is(err, context.Canceled):
		return Cancelled
	}
	return Unknown
}
