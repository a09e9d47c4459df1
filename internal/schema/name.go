package schema

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/nearcall/nearcall/internal/wire"
)

// CheckFunctionName refuses what cannot be a function's name: nothing, more
// than function_name_bytes_max bytes, spaces and control characters.
func CheckFunctionName(name string) error {
	if len(name) > wire.FunctionNameBytesMax {
		return fmt.Errorf("the function name %.20q... has %d bytes; the limit function_name_bytes_max is %d, which is fixed",
			name, len(name), wire.FunctionNameBytesMax)
	}
	return checkName("function name", name)
}

// checkName refuses names that could not be shown in a line.
func checkName(what, name string) error {
	if err := checkText(what, name); err != nil {
		return err
	}
	if strings.ContainsFunc(name, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }) {
		return fmt.Errorf("the %s %.80q holds a space or control character", what, name)
	}
	return nil
}

func checkText(what, text string) error {
	if text == "" {
		return fmt.Errorf("the %s is empty", what)
	}
	if !utf8.ValidString(text) {
		return fmt.Errorf("the %s %.80q is not valid UTF-8", what, text)
	}
	return nil
}
