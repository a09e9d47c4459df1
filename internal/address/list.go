package address

import (
	"slices"
	"strings"
)

// A List is an address of one endpoint or several.
type List struct {
	// Groups are the endpoints in order of distance. The endpoints of one group are equals.
	// There is at least one group, and none is empty.
	Groups [][]Address
	text   string
}

// String returns the address as it was written.
func (l List) String() string { return l.text }

// Count returns how many endpoints the address has.
func (l List) Count() (count int) {
	for _, group := range l.Groups {
		count += len(group)
	}
	return count
}

// Has reports whether an endpoint has the network.
func (l List) Has(network string) bool {
	return slices.ContainsFunc(l.Groups, func(group []Address) bool {
		return slices.ContainsFunc(group, func(a Address) bool { return a.Network == network })
	})
}

// ParseList parses an address that may have several endpoints. allowAbstract permits
// "unix:@name".
func ParseList(text string, allowAbstract bool) (List, error) {
	list := List{text: text}
	for _, group := range splitGroups(text) {
		var members []Address
		for _, endpoint := range splitGroup(group) {
			parsed, err := parseOne(endpoint, allowAbstract)
			if err != nil {
				return List{}, err
			}
			members = append(members, parsed)
		}
		list.Groups = append(list.Groups, members)
	}
	return list, nil
}

// At returns the same address with another target, such as one of the addresses of a host.
func (a Address) At(target string) Address {
	_, parameters, has := strings.Cut(a.text, "?")
	if has {
		parameters = "?" + parameters
	}
	a.Target, a.text = target, a.Network+":"+target+parameters
	return a
}

// ToldBy returns the address as it is used by somebody whom the server at another address has told it. Of
// its parameters only name counts. The others are those of that other address, if it has the same scheme.
func (a Address) ToldBy(teller Address) Address {
	made := Address{}
	if teller.Network == a.Network {
		made = teller
	}
	made.Network, made.Target, made.Host, made.TLS.Name = a.Network, a.Target, a.Host, a.TLS.Name
	if made.text = a.Network + ":" + a.Target; a.TLS.Name != "" {
		made.text += "?name=" + a.TLS.Name
	}
	return made
}

// schemes are the ways in which an endpoint can begin, with the colon.
var schemes = []string{"unix:", "tcp:", "tls:", "embed:"}

// splitGroups splits an address at its bars. A bar ends a group only if an endpoint follows,
// so that a path may have bars in it.
func splitGroups(text string) (groups []string) {
	for from := 0; ; {
		bar := strings.IndexByte(text[from:], '|')
		if bar < 0 {
			return append(groups, text)
		}
		bar += from
		rest := strings.TrimLeft(text[bar+1:], " ")
		if !slices.ContainsFunc(schemes, func(scheme string) bool { return strings.HasPrefix(rest, scheme) }) {
			from = bar + 1
			continue
		}
		groups = append(groups, strings.TrimRight(text[:bar], " "))
		text, from = rest, 0
	}
}

// splitGroup returns the endpoints of a group, each with the parameters of the group. Only
// hosts can be several, because a path may have commas in it.
func splitGroup(group string) []string {
	scheme, rest, _ := strings.Cut(group, ":")
	if scheme != "tcp" && scheme != "tls" {
		return []string{group}
	}
	hosts, parameters, has := strings.Cut(rest, "?")
	if has {
		parameters = "?" + parameters
	}
	var endpoints []string
	for host := range strings.SplitSeq(hosts, ",") {
		endpoints = append(endpoints, scheme+":"+strings.TrimSpace(host)+parameters)
	}
	return endpoints
}

// isList reports whether an address has several endpoints.
func isList(text string) bool {
	groups := splitGroups(text)
	return len(groups) > 1 || len(splitGroup(groups[0])) > 1
}
