package command

import (
	"io"
	"os"
)

// A style marks up text for a terminal, and leaves it alone elsewhere.
type style struct{ terminal bool }

// styleFor follows https://no-color.org.
func styleFor(out io.Writer) style {
	file, ok := out.(*os.File)
	return style{terminal: ok && os.Getenv("NO_COLOR") == "" && isTerminal(file)}
}

func (s style) bold(text string) string  { return s.mark("\x1b[1m", text) }
func (s style) faint(text string) string { return s.mark("\x1b[2m", text) }
func (s style) red(text string) string   { return s.mark("\x1b[31m", text) }

func (s style) mark(begin, text string) string {
	if !s.terminal {
		return text
	}
	return begin + text + "\x1b[0m"
}
