package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/nearcall/nearcall/status"
)

// Exit codes. They are stable: scripts test them.
const (
	exitOK        = 0
	exitFailed    = 1 // a file that cannot be read, an incompatible schema
	exitUsage     = 2
	exitUnchecked = 3  // of 'resident check'
	exitCallsFrom = 64 // 64 + the code of a call's error
	codesLast     = status.Unauthenticated
)

// A usageError is a command line that cannot be understood.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// errIncompatible ends `schema diff`, which has said everything already.
var errIncompatible = errors.New("the schemas are not compatible")

// report says what went wrong and returns the exit code.
func (p *program) report(err error) int {
	var failure *status.Error
	var usage usageError
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, errIncompatible), errors.Is(err, errDiffers):
		return exitFailed
	case errors.As(err, &failure):
		p.reportCall(failure)
		return exitCallsFrom + int(failure.Code)
	case errors.As(err, &usage), isCobraUsage(err):
		fmt.Fprintf(p.err, "nearcall: %s; see 'nearcall help'\n", bare(err))
		return exitUsage
	}
	fmt.Fprintf(p.err, "nearcall: %s\n", bare(err))
	if errors.Is(err, errUnchecked) {
		return exitUnchecked
	}
	return exitFailed
}

// bare is the text of an error without the name that packages put before theirs.
func bare(err error) string { return strings.TrimPrefix(err.Error(), "nearcall: ") }

// isCobraUsage recognises what cobra has no type for.
func isCobraUsage(err error) bool {
	return strings.HasPrefix(err.Error(), "unknown command") || strings.HasPrefix(err.Error(), "if any flags in the group")
}

// reportCall prints the error of a call, as JSON where results are JSON.
func (p *program) reportCall(failure *status.Error) {
	if !p.jsonError {
		fmt.Fprintln(p.err, failure)
		for _, detail := range failure.Details {
			fmt.Fprintf(p.err, "  %s %s\n", detail.Type, detailJSON(detail.Value))
		}
		return
	}
	type detail [2]any
	object := struct {
		Code    uint8    `json:"code"`
		Name    string   `json:"name"`
		Message string   `json:"message"`
		Outcome string   `json:"outcome"`
		Details []detail `json:"details,omitempty"`
	}{Code: uint8(failure.Code), Name: failure.Code.String(), Message: failure.Message, Outcome: failure.Outcome.String()}
	for _, d := range failure.Details {
		object.Details = append(object.Details, detail{d.Type, json.RawMessage(detailJSON(d.Value))})
	}
	text, err := json.Marshal(object)
	if err != nil {
		text = []byte(failure.Error())
	}
	fmt.Fprintf(p.err, "%s\n", text)
}

// detailJSON shows a detail; what JSON cannot hold, such as a map with keys
// that are numbers, is shown as Go does.
func detailJSON(value any) []byte {
	text, err := json.Marshal(value)
	if err != nil {
		text, _ = json.Marshal(fmt.Sprint(value))
	}
	return text
}

// exitCodesText is the table that --help and the manual show.
func exitCodesText() string {
	var text strings.Builder
	fmt.Fprintf(&text, "Exit codes:\n")
	fmt.Fprintf(&text, "  %3d  success\n", exitOK)
	fmt.Fprintf(&text, "  %3d  a file cannot be read or written; 'schema diff' found an incompatible change;\n", exitFailed)
	fmt.Fprintf(&text, "       'bench' could not measure one of several settings; 'resident check' found a difference\n")
	fmt.Fprintf(&text, "  %3d  the command line cannot be understood\n", exitUsage)
	fmt.Fprintf(&text, "  %3d  'resident check' could compare nothing\n", exitUnchecked)
	for code := status.Cancelled; code <= codesLast; code++ {
		fmt.Fprintf(&text, "  %3d  %s\n", exitCallsFrom+int(code), code)
	}
	return strings.TrimRight(text.String(), "\n")
}
