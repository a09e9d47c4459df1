package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strings"
)

func noFunctions([]string) ([]function, error) {
	return nil, nil
}

func goFunctions(lines []string) ([]function, error) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, "", strings.Join(lines, "\n"), parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var found []function
	for _, declaration := range file.Decls {
		f, ok := declaration.(*ast.FuncDecl)
		if !ok {
			continue
		}
		first, last := set.Position(f.Pos()).Line, set.Position(f.End()).Line
		found = append(found, function{f.Name.Name, first, last - first + 1})
	}
	return found, nil
}

var (
	cSignature = regexp.MustCompile(`^[A-Za-z_].*?(\w+)\s*\(`)
	cType      = regexp.MustCompile(`^(typedef|struct|enum|union|extern\s+"C")\b[^()]*$`)
)

// cFunctions goes by braces in the first column, as the style has it: a function
// begins at the last line before one that starts with a name, and ends at the
// next closing brace there.
func cFunctions(lines []string) ([]function, error) {
	var found []function
	var open *function
	signature := function{}
	for i, line := range lines {
		number := i + 1
		if match := cSignature.FindStringSubmatch(line); match != nil && !cType.MatchString(line) {
			signature = function{name: match[1], line: number}
		}
		opens := strings.HasPrefix(line, "{") ||
			signature.line == number && strings.HasSuffix(strings.TrimRight(line, " \t"), "{")
		switch {
		case open == nil && opens && signature.name != "":
			f := signature
			open = &f
		case strings.HasPrefix(line, "}"):
			if open != nil {
				open.lines = number - open.line + 1
				found = append(found, *open)
			}
			open, signature = nil, function{}
		}
	}
	return found, nil
}

var (
	perlBegin  = regexp.MustCompile(`^(\s*)sub\s+([\w:]+).*\{\s*(#.*)?$`)
	shellBegin = regexp.MustCompile(`^(\s*)(?:function\s+)?([\w-]+)\s*(?:\(\))?\s*\{\s*(#.*)?$`)
)

func perlFunctions(lines []string) ([]function, error) {
	return bracedFunctions(lines, perlBegin), nil
}

func shellFunctions(lines []string) ([]function, error) {
	return bracedFunctions(lines, shellBegin), nil
}

// bracedFunctions end at the closing brace that is indented as they are.
func bracedFunctions(lines []string, begin *regexp.Regexp) []function {
	var found []function
	for i, line := range lines {
		match := begin.FindStringSubmatch(line)
		if match == nil {
			continue
		}
		end := match[1] + "}"
		for j := i + 1; j < len(lines); j++ {
			if strings.HasPrefix(lines[j], end) {
				found = append(found, function{match[2], i + 1, j - i + 1})
				break
			}
		}
	}
	return found
}

var pythonBegin = regexp.MustCompile(`^(\s*)(?:async\s+)?def\s+(\w+)`)

func pythonFunctions(lines []string) ([]function, error) {
	inside := insideStrings(lines)
	var found []function
	for i, line := range lines {
		match := pythonBegin.FindStringSubmatch(line)
		if match == nil || inside[i] {
			continue
		}
		last := lastIndented(lines, inside, i, len(match[1]))
		found = append(found, function{match[2], i + 1, last - i + 1})
	}
	return found, nil
}

// lastIndented returns the last line of the block that line begin opens: the one
// before the next that is indented no deeper. Blank lines, lines inside a string
// and the end of a signature over several lines do not end a block.
func lastIndented(lines []string, inside []bool, begin, indent int) int {
	last := begin
	for i := begin + 1; i < len(lines); i++ {
		trimmed := strings.TrimLeft(lines[i], " \t")
		if trimmed == "" {
			continue
		}
		deeper := len(lines[i])-len(trimmed) > indent
		if !deeper && !inside[i] && !strings.HasPrefix(trimmed, ")") {
			break
		}
		last = i
	}
	return last
}

// insideStrings tells for each line whether it begins inside a string of three
// quotes.
func insideStrings(lines []string) []bool {
	inside := make([]bool, len(lines))
	quote := ""
	for i, line := range lines {
		inside[i] = quote != ""
		quote = quoteAfter(line, quote)
	}
	return inside
}

// quoteAfter returns the quotes of the string that is open after line, given
// those open before it; "" means none. Comments count as code: an odd number of
// three quotes in one is not worth a parser.
func quoteAfter(line, quote string) string {
	for at := 0; at+3 <= len(line); at++ {
		three := line[at : at+3]
		switch {
		case quote == "" && (three == `"""` || three == "'''"):
			quote, at = three, at+2
		case quote != "" && three == quote:
			quote, at = "", at+2
		}
	}
	return quote
}
