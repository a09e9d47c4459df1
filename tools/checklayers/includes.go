package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

const (
	clientFolder = "libnearcall/src"
	publicHeader = "nearcall.h"
)

// ioHeaders mean that a file does I/O.
var ioHeaders = []string{
	"sys/socket.h", "sys/un.h", "sys/uio.h", "sys/mman.h", "netinet/in.h", "netinet/tcp.h",
	"arpa/inet.h", "netdb.h", "poll.h", "sys/epoll.h",
}

// pureSources encode and decode, and never see a descriptor.
var pureSources = []string{clientFolder + "/wire/wire.c", clientFolder + "/wire/wire.h"}

var includeLine = regexp.MustCompile(`(?m)^\s*#\s*include\s*[<"]([^>"]+)[>"]`)

func includes(path string) ([]string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, match := range includeLine.FindAllSubmatch(text, -1) {
		names = append(names, string(match[1]))
	}
	return names, nil
}

func checkIncludes(root string, files []string) ([]string, error) {
	var problems []string
	for _, file := range files {
		var found []string
		var err error
		switch {
		case slices.Contains(pureSources, file):
			found, err = checkPure(root, file, files)
		case within(file, "bindings") && isC(file):
			found, err = checkBinding(root, file, files)
		}
		if err != nil {
			return nil, err
		}
		problems = append(problems, found...)
	}
	return problems, nil
}

func isC(file string) bool {
	return slices.Contains([]string{".c", ".h", ".xs", ".cc", ".cpp"}, filepath.Ext(file))
}

// checkBinding: a binding sees of libnearcall what every user of it sees.
func checkBinding(root, file string, files []string) ([]string, error) {
	names, err := includes(filepath.Join(root, file))
	var problems []string
	for _, name := range names {
		base := filepath.Base(name)
		its := slices.ContainsFunc(files, func(other string) bool { return within(other, clientFolder) && filepath.Base(other) == base }) &&
			!slices.Contains(files, filepath.Join(filepath.Dir(file), name))
		if base != publicHeader && (its || strings.Contains(name, "libnearcall/")) {
			problems = append(problems, fmt.Sprintf("%s: includes %s; bindings include only %s of libnearcall", file, name, publicHeader))
		}
	}
	return problems, err
}

// checkPure follows the includes of our own headers as well: what they include,
// the file includes.
func checkPure(root, file string, files []string) ([]string, error) {
	var problems []string
	seen := map[string]bool{}
	waiting := []string{file}
	for len(waiting) > 0 {
		current := waiting[0]
		waiting = waiting[1:]
		names, err := includes(filepath.Join(root, current))
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			if slices.Contains(ioHeaders, name) {
				problems = append(problems, fmt.Sprintf("%s: includes <%s> by way of %s; it must do no I/O", file, name, current))
			}
			ours := clientFolder + "/" + name
			if slices.Contains(files, ours) && !seen[ours] {
				seen[ours] = true
				waiting = append(waiting, ours)
			}
		}
	}
	return problems, nil
}
