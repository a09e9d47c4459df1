package main

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// The folders of libnearcall state their arrows themselves: the first comment of
// NAME/NAME.h ends with "May include: " and the names of the folders whose headers
// the files of this one may include, or with "nothing of the library's".
var (
	firstComment  = regexp.MustCompile(`(?s)\A/\*(.*?)\*/`)
	statement     = regexp.MustCompile(`May include: ([^.]*)\.`)
	quotedInclude = regexp.MustCompile(`(?m)^\s*#\s*include\s*"([^"]+)"`)
)

const (
	publicFolder = "libnearcall/include"
	noFolder     = "nothing of the library's"
)

// clientPart is one folder of libnearcall.
type clientPart struct {
	name  string
	files []string // with their paths
	may   []string
	does  map[string]bool // the folders that its files include
}

// checkFolders holds the files of libnearcall to what the headers of their
// folders say, and those headers to what the files do.
func checkFolders(root string, files []string) ([]string, error) {
	parts, problems := clientParts(files)
	var names []string
	for _, p := range parts {
		names = append(names, p.name)
	}
	for _, p := range parts {
		found, err := p.read(root, files, names)
		if err != nil {
			return nil, err
		}
		problems = append(problems, found...)
	}
	return append(problems, circles(parts)...), nil
}

func clientParts(files []string) (parts []*clientPart, problems []string) {
	for _, file := range files {
		inside, ok := strings.CutPrefix(file, clientFolder+"/")
		if !ok || !isC(file) {
			continue
		}
		name := path.Dir(inside)
		if name == "." || strings.Contains(name, "/") {
			problems = append(problems, file+": files of libnearcall lie in folders of src, and those hold no others")
			continue
		}
		at := slices.IndexFunc(parts, func(p *clientPart) bool { return p.name == name })
		if at < 0 {
			at = len(parts)
			parts = append(parts, &clientPart{name: name, does: map[string]bool{}})
		}
		parts[at].files = append(parts[at].files, file)
	}
	return parts, problems
}

func (p *clientPart) header() string {
	return clientFolder + "/" + p.name + "/" + p.name + ".h"
}

func (p *clientPart) read(root string, files, names []string) ([]string, error) {
	if !slices.Contains(p.files, p.header()) {
		return []string{fmt.Sprintf("%s/%s: has no %s.h, which says what it is and what it may include", clientFolder, p.name, p.name)}, nil
	}
	text, err := os.ReadFile(filepath.Join(root, p.header()))
	if err != nil {
		return nil, err
	}
	problems := p.readStatement(string(text), names)
	for _, file := range p.files {
		found, err := p.checkFile(root, file, files)
		if err != nil {
			return nil, err
		}
		problems = append(problems, found...)
	}
	for _, name := range p.may {
		if !p.does[name] {
			problems = append(problems, fmt.Sprintf("%s: says that it may include %s, and nothing there does", p.header(), name))
		}
	}
	return problems, nil
}

func (p *clientPart) readStatement(header string, names []string) (problems []string) {
	comment := strings.Join(strings.Fields(strings.ReplaceAll(firstComment.FindString(header), "\n *", " ")), " ")
	said := statement.FindStringSubmatch(comment)
	if said == nil {
		return []string{p.header() + `: its first comment does not end with "May include: " and folders`}
	}
	if said[1] == noFolder {
		return nil
	}
	for _, name := range strings.Split(said[1], ", ") {
		if name == p.name || !slices.Contains(names, name) {
			problems = append(problems, fmt.Sprintf("%s: may include %q, which is no other folder of libnearcall", p.header(), name))
			continue
		}
		p.may = append(p.may, name)
	}
	return problems
}

// checkFile looks at the file's own includes: what a header includes is the header's affair.
func (p *clientPart) checkFile(root, file string, files []string) (problems []string, err error) {
	text, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		return nil, err
	}
	for _, match := range quotedInclude.FindAllSubmatch(text, -1) {
		name := string(match[1])
		folder := path.Dir(name)
		switch {
		case slices.Contains(files, publicFolder+"/"+name):
		case !slices.Contains(files, clientFolder+"/"+name):
			problems = append(problems, fmt.Sprintf("%s: includes %s; headers of libnearcall are named with their folder", file, name))
		case folder != p.name && !slices.Contains(p.may, folder):
			problems = append(problems, fmt.Sprintf("%s: includes %s, which %s does not allow", file, name, p.header()))
		default:
			p.does[folder] = true
		}
	}
	return problems, nil
}

// circles names each circle of folders once, from the folder by which it is found.
func circles(parts []*clientPart) (problems []string) {
	done := map[string]bool{}
	var visit func(name string, way []string)
	visit = func(name string, way []string) {
		if at := slices.Index(way, name); at >= 0 {
			circle := strings.Join(append(slices.Clone(way[at:]), name), " -> ")
			problems = append(problems, fmt.Sprintf("%s: folders may not include each other in a circle: %s", clientFolder, circle))
			return
		}
		if done[name] {
			return
		}
		for _, p := range parts {
			if p.name == name {
				for _, next := range p.may {
					visit(next, append(slices.Clone(way), name))
				}
			}
		}
		done[name] = true
	}
	for _, p := range parts {
		visit(p.name, nil)
	}
	return problems
}
