// Package status holds what a failed call tells its caller: a code, an
// outcome, a message and details. Server and client share it.
//
//	_, err := client.Call[int64](ctx, c, "ack", 3, 4)
//	var failure *status.Error
//	if errors.As(err, &failure) && failure.Outcome == status.OutcomeNotExecuted {
//		// safe to send again
//	}
//	if errors.Is(err, status.NotFound) { ... }
//
// The lists of codes and outcomes are made from spec/errors.json.
package status

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// A Code says what went wrong; the numbers are those of gRPC. It is an error
// itself, so that errors.Is(err, status.NotFound) works on any error.
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

// ParseCode returns the code with the given name.
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

// A Detail is typed data that travels with an error. Value is anything that
// encodes as the schema's type any.
type Detail struct {
	Type  string
	Value any
}

// An Error is a failed call. A function returns one to choose its code and
// details; a client returns one for every failure.
type Error struct {
	Code    Code
	Outcome Outcome
	Message string
	Details []Detail

	// Cause is the local error behind this one, such as a system call's.
	// It does not travel.
	Cause error
}

// Error returns code, message and outcome.
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

// Unwrap returns the local cause.
func (e *Error) Unwrap() error { return e.Cause }

// Is reports whether target is this error's code, or the context error that
// means the same.
func (e *Error) Is(target error) bool {
	if code, ok := target.(Code); ok {
		return e.Code == code
	}
	return e.Code == DeadlineExceeded && target == context.DeadlineExceeded ||
		e.Code == Cancelled && target == context.Canceled
}

// Errorf makes an error with a code and a formatted message. Functions return
// it; %w keeps a local cause.
func Errorf(code Code, format string, args ...any) *Error {
	formatted := fmt.Errorf(format, args...)
	return &Error{Code: code, Message: textOf(formatted), Cause: errors.Unwrap(formatted)}
}

// With returns e with the outcome set, for use where the error is made.
func (e *Error) With(outcome Outcome) *Error {
	e.Outcome = outcome
	return e
}

// FromError returns the Error in err's chain, or one made for it: context
// errors get their codes, all others UNKNOWN. It returns nil for nil. An Error
// that was wrapped keeps its code and takes the text of the whole chain.
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

// textOf returns the text of an error in which each Error stands with its message alone:
// code and outcome are told once, in front and behind, and so is the name in front of all.
func textOf(err error) string {
	text := err.Error()
	for _, inner := range errorsIn(err) {
		bare := inner.Message
		if bare == "" {
			bare = inner.Code.String()
		}
		text = strings.Replace(text, inner.Error(), bare, 1)
	}
	return strings.TrimPrefix(text, "nearcall: ")
}

// errorsIn returns each Error that err wraps and whose text it may therefore hold.
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
