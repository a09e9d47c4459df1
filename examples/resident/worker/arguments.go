package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// filesMax is how deep files of arguments name each other.
const filesMax = 64

// expand replaces @FILE by the arguments in the file, a line each, as Bazel does it
// before it sends a request: files in files too, and @@ stands for an argument that
// begins with @. A label of another repository (@repository//package) names no file.
func expand(args []string) ([]string, error) { return expandDeep(nil, args, 0) }

func expandDeep(expanded, args []string, depth int) ([]string, error) {
	for _, arg := range args {
		file, found := strings.CutPrefix(arg, "@")
		if !found || strings.HasPrefix(file, "@") || strings.Contains(file, "//") {
			expanded = append(expanded, unescape(arg))
			continue
		}
		if depth == filesMax {
			return nil, fmt.Errorf("@%s: files of arguments name each other more than %d deep; does one name itself?", file, filesMax)
		}
		text, err := os.ReadFile(file)
		if err == nil {
			expanded, err = expandDeep(expanded, lines(string(text)), depth+1)
		}
		if err != nil {
			return nil, err
		}
	}
	return expanded, nil
}

// unescape is for what reaches the program, in requests too: Bazel leaves it to the worker.
func unescape(arg string) string {
	if strings.HasPrefix(arg, "@@") {
		return arg[1:]
	}
	return arg
}

func unescapeAll(args []string) []string {
	all := make([]string, 0, len(args))
	for _, arg := range args {
		all = append(all, unescape(arg))
	}
	return all
}

// lines are those that Java knows. Empty ones are arguments too.
func lines(text string) []string {
	text = strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\r", "\n")
	if text == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n")
}

// anchored finds the command where a request runs in a directory of its own: relative
// paths of programs are relative to the one in which the worker was started.
func anchored(command []string) ([]string, error) {
	command = slices.Clone(command)
	for i, word := range command {
		isOption := strings.HasPrefix(word, "-")
		if strings.Contains(word, "/") && !isOption {
			path, err := filepath.Abs(word)
			if err != nil {
				return nil, err
			}
			command[i] = path
		}
		// Behind the launcher comes the program itself.
		if filepath.Base(word) != "nearcall-run" && !isOption {
			break
		}
	}
	return command, nil
}
